//! A broker that cannot start says why in one line and exits with 1; one that is asked to stop
//! does so at once and keeps everything.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use millrace_tests::{
    broker::{self, Broker, FailedStart, Options, cores, free_port, serve_until_exit},
    kernel::{Confinement, Signal},
    mount::{Mount, may_mount},
    wire::{ApiKey, Connection},
};
use tempfile::TempDir;

/// A user without rights, on every Linux.
const NOBODY: u32 = 65_534;

/// A stop may take this long even on a machine that is busy with other things.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// Arguments of a start that would succeed, on a directory of its own.
fn arguments(folder: &Path) -> Vec<String> {
    let data = folder.join("data").to_string_lossy().into_owned();
    ["--data-dir", &data, "--listen", &format!("127.0.0.1:{}", free_port())]
        .map(str::to_owned)
        .to_vec()
}

/// The start fails with `extra` arguments.
fn refused(folder: &Path, extra: &[&str]) -> FailedStart {
    let mut arguments = arguments(folder);
    arguments.extend(extra.iter().map(|argument| (*argument).to_owned()));
    serve_until_exit(broker::binary(), &arguments, &Confinement::default())
}

/// The rule for every failed start: code 1, one line, no panic, and all of these words.
fn assert_one_line(failed: &FailedStart, words: &[&str]) {
    let text = failed.stderr.trim_end();
    assert_eq!(failed.code, Some(1), "exit code; standard error:\n{text}");
    assert_eq!(text.lines().count(), 1, "one line, not:\n{text}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.to_lowercase().contains(&word.to_lowercase()), "no '{word}' in: {text}");
    }
    println!("{text}");
}

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let broker = Broker::start(Options::default());
    let data = broker.data_dir().to_string_lossy().into_owned();
    let listen = format!("127.0.0.1:{}", free_port());
    let arguments = ["--data-dir", &data, "--listen", &listen];
    let failed = serve_until_exit(broker::binary(), &arguments, &Confinement::default());
    assert_one_line(&failed, &[&data]);
}

#[test]
fn a_second_process_on_the_same_port_is_refused() {
    let broker = Broker::start(Options::default());
    let folder = broker::fresh_folder("port");
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let arguments = ["--data-dir", &data, "--listen", &broker.bootstrap()];
    let failed = serve_until_exit(broker::binary(), &arguments, &Confinement::default());
    assert_one_line(&failed, &[&broker.address().port().to_string()]);
}

#[test]
fn an_unknown_setting_names_the_nearest_one() {
    let folder = broker::fresh_folder("setting");
    let failed = refused(folder.path(), &["--set", "log.retention.hour=3"]);
    assert_one_line(&failed, &["log.retention.hour", "log.retention.hours"]);
}

#[test]
fn an_unknown_setting_in_the_file_names_the_file() {
    let folder = broker::fresh_folder("file");
    let file = folder.path().join("server.properties");
    fs::write(&file, "num.partition=3\n").expect("a fresh folder");
    let file = file.to_string_lossy().into_owned();
    let failed = refused(folder.path(), &["--config", &file]);
    assert_one_line(&failed, &["num.partition", "num.partitions", "server.properties"]);
}

#[test]
fn an_ill_typed_setting_says_what_it_takes() {
    let folder = broker::fresh_folder("typed");
    let failed = refused(folder.path(), &["--set", "num.partitions=many"]);
    assert_one_line(&failed, &["num.partitions", "many"]);
}

#[test]
fn a_wildcard_address_needs_an_advertised_one() {
    let folder = broker::fresh_folder("wildcard");
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let listen = format!("0.0.0.0:{}", free_port());
    let arguments = ["--data-dir", &data, "--listen", &listen];
    let failed = serve_until_exit(broker::binary(), &arguments, &Confinement::default());
    assert_one_line(&failed, &["every address", "--advertise"]);
}

#[test]
fn more_shards_than_cores_is_refused() {
    let folder = broker::fresh_folder("shards");
    let shards = (cores() + 1).to_string();
    let failed = refused(folder.path(), &["--shards", &shards]);
    assert_one_line(&failed, &["shards", &shards]);
}

#[test]
fn a_forbidden_io_uring_is_explained() {
    let folder = broker::fresh_folder("seccomp");
    let confinement = Confinement { forbid_io_uring: true, ..Confinement::default() };
    let failed = serve_until_exit(broker::binary(), &arguments(folder.path()), &confinement);
    assert_one_line(&failed, &["io_uring"]);
}

#[test]
fn a_small_descriptor_limit_is_explained() {
    let folder = broker::fresh_folder("nofile");
    let confinement = Confinement { descriptors: Some(24), ..Confinement::default() };
    let failed = serve_until_exit(broker::binary(), &arguments(folder.path()), &confinement);
    assert_one_line(&failed, &["nofile"]);
}

/// A folder that any user may enter, with a copy of the binary in it.
fn public_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("millrace-proof-").tempdir_in("/var/tmp");
    let folder = folder.expect("/var/tmp is writable");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
    let program = folder.path().join("millrace");
    fs::copy(broker::binary(), &program).expect("room for a copy");
    (folder, program)
}

#[test]
fn a_small_memlock_limit_is_explained_or_enough() {
    if !may_mount() {
        return;
    }
    let (folder, program) = public_folder();
    let data = folder.path().join("home");
    fs::create_dir(&data).expect("our own folder");
    chown(&data, Some(NOBODY), Some(NOBODY)).expect("root may");
    let port = free_port();
    let mut command = broker::millrace(&program);
    command.arg("serve").arg("--data-dir").arg(data.join("data"));
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    let limit = Some(16 << 10);
    let confinement =
        Confinement { memlock_bytes: limit, user: Some(NOBODY), ..Default::default() };
    confinement.apply(&mut command);
    let log = folder.path().join("log");
    let file = fs::File::create(&log).expect("our own folder");
    let mut process = command.stderr(file).spawn().expect("the copy is executable by all");
    let address = ([127, 0, 0, 1], port).into();
    let ended = loop {
        if let Some(status) = process.try_wait().expect("our own child") {
            break Some(status);
        }
        if Connection::open(address).and_then(|mut link| link.api_versions()).is_ok() {
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    match ended {
        None => {
            process.kill().expect("our own child");
            process.wait().expect("our own child");
        }
        Some(status) => {
            let stderr = fs::read_to_string(log).expect("made above");
            assert_one_line(&FailedStart { code: status.code(), stderr }, &["memlock"]);
        }
    }
}

#[test]
fn a_directory_of_another_owner_is_explained() {
    if !may_mount() {
        return;
    }
    let (folder, program) = public_folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("our own folder");
    let confinement = Confinement { user: Some(NOBODY), ..Confinement::default() };
    let failed = serve_until_exit(&program, &arguments(folder.path()), &confinement);
    assert_one_line(&failed, &[&data.to_string_lossy()]);
}

#[test]
fn a_read_only_directory_is_explained() {
    if !may_mount() {
        return;
    }
    let mount = Mount::tmpfs("ro,size=1m");
    let failed = refused(mount.path(), &[]);
    assert_one_line(&failed, &[&mount.path().to_string_lossy(), "read-only"]);
}

#[test]
fn a_full_directory_is_explained() {
    if !may_mount() {
        return;
    }
    let mount = Mount::tmpfs("size=64k");
    fs::write(mount.path().join("filler"), vec![1; 60 << 10]).expect("it fits");
    let failed = refused(mount.path(), &[]);
    assert_one_line(&failed, &[&mount.path().to_string_lossy(), "free"]);
}

#[test]
fn the_first_request_is_answered_at_once_and_the_start_says_what_runs() {
    let broker = Broker::start(Options::default().with_shards(1));
    println!("first answer {:?} after the start of the process", broker.first_answer());
    assert!(broker.first_answer() < Duration::from_secs(1), "{:?}", broker.first_answer());
    // The line is for people, and comes when all is ready; the answer may come before it.
    let log = (0..100).map(|_| broker.log()).find(|log| {
        std::thread::sleep(Duration::from_millis(10));
        log.ends_with('\n')
    });
    let log = log.unwrap_or_default();
    let first = log.lines().next().unwrap_or_default();
    for word in [&broker.bootstrap(), broker.data_dir().to_string_lossy().as_ref(), "shard"] {
        assert!(first.contains(word), "no '{word}' in the line of the start: {log}");
    }
}

#[test]
fn sigterm_and_sigint_stop_at_once_and_keep_every_record() {
    let mut broker = Broker::start(Options::default());
    let mut link = Connection::open(broker.address()).expect("it answers");
    link.create_topic("kept", 3).expect("made");
    for (round, signal) in [Signal::Terminate, Signal::Interrupt].into_iter().enumerate() {
        let mut link = Connection::open(broker.address()).expect("it answers");
        for partition in 0..3 {
            link.produce("kept", partition, b"value").expect("acknowledged");
        }
        // An open connection and a fetch that waits must not hold up the end.
        let mut waiting = Connection::open(broker.address()).expect("it answers");
        waiting.send(ApiKey::Fetch, 4, &waiting_fetch("kept")).expect("sent");
        let (status, took) = broker.stop(signal);
        println!("{signal:?}: {status} after {took:?}");
        assert!(status.success(), "{signal:?}: {status}\n{}", broker.log());
        assert!(took < STOP_BOUND, "{signal:?} took {took:?}");
        broker.restart();
        println!("first answer after it: {:?}", broker.first_answer());
        let mut link = Connection::open(broker.address()).expect("it answers");
        let kept = i64::try_from(round + 1).expect("two rounds");
        for partition in 0..3 {
            assert_eq!(link.end_offset("kept", partition).expect("an offset"), kept);
        }
    }
}

/// A Fetch (version 4) that waits a minute for a record beyond the end of partition 0.
fn waiting_fetch(topic: &str) -> Vec<u8> {
    let mut body = millrace_tests::wire::Writer::default();
    body.i32(-1).i32(60_000).i32(1).i32(1 << 20).u8(0);
    body.i32(1).string(topic).i32(1).i32(0).i64(1).i32(1 << 20);
    body.bytes
}

#[test]
fn settings_are_explained_with_their_origin() {
    let mut command = broker::millrace(broker::binary());
    command.args(["config", "explain", "--set", "num.partitions=7"]);
    let output = command.env("MILLRACE_LOG_RETENTION_MS", "1234").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in:\n{text}")).to_owned()
    };
    assert!(line("num.partitions").contains('7'));
    assert!(line("log.retention.ms").contains("1234"));
    assert!(line("log.retention.ms").contains("MILLRACE_LOG_RETENTION_MS"));
}
