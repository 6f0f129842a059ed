//! temp
use crate::io::{
    Disk, DiskFile, FlushScope, OpenMode, Spawn,
    buf::{IoRange, Pool, Slice, TailBuf},
    runtime::RealEnv,
};
use std::{
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};
/// x
#[derive(Clone)]
pub struct RealDisk {
    env: RealEnv,
    _dir: PathBuf,
}
/// x
#[derive(Clone)]
pub struct RealFile {
    env: RealEnv,
    f: Arc<std::fs::File>,
}
impl RealDisk {
    /// x
    pub async fn open(env: &RealEnv, _pool: &Pool, dir: &Path) -> crate::error::Result<Self> {
        Ok(Self { env: env.clone(), _dir: dir.into() })
    }
    /// x
    pub fn describe(&self) -> String {
        "temp".into()
    }
}
impl DiskFile for RealFile {
    async fn write_at(&self, r: &[IoRange], o: u64) -> io::Result<()> {
        let r: Vec<IoRange> = r.to_vec();
        let f = self.f.clone();
        self.env
            .run_blocking(move || {
                let mut o = o;
                for x in r {
                    let s = unsafe { std::slice::from_raw_parts(x.as_ptr(), x.len()) };
                    f.write_all_at(s, o)?;
                    o += x.len() as u64;
                }
                Ok(())
            })
            .await
    }
    async fn write_zeros(&self, o: u64, l: u64) -> io::Result<()> {
        let f = self.f.clone();
        self.env.run_blocking(move || f.write_all_at(&vec![0; l as usize], o)).await
    }
    async fn read_at(&self, o: u64, l: usize) -> io::Result<Slice> {
        let f = self.f.clone();
        self.env
            .run_blocking(move || {
                let mut v = vec![0; l];
                let mut n = 0;
                while n < l {
                    let k = f.read_at(&mut v[n..], o + n as u64)?;
                    if k == 0 {
                        break;
                    }
                    n += k;
                }
                let mut t = TailBuf::unpooled(n.max(1));
                t.append(&v[..n]);
                Ok(t.freeze())
            })
            .await
    }
    async fn sync(&self) -> io::Result<()> {
        let f = self.f.clone();
        self.env.run_blocking(move || f.sync_data()).await
    }
    async fn set_length(&self, l: u64) -> io::Result<()> {
        let f = self.f.clone();
        self.env.run_blocking(move || f.set_len(l)).await
    }
    async fn length(&self) -> io::Result<u64> {
        Ok(self.f.metadata()?.len())
    }
}
impl Disk for RealDisk {
    type File = RealFile;
    fn flush_scope(&self) -> FlushScope {
        FlushScope::File
    }
    async fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    async fn open(&self, p: &Path, m: OpenMode) -> io::Result<RealFile> {
        let mut o = std::fs::OpenOptions::new();
        o.read(true);
        if m == OpenMode::Write {
            o.write(true).create(true);
        }
        Ok(RealFile { env: self.env.clone(), f: Arc::new(o.open(p)?) })
    }
    async fn list(&self, p: &Path) -> io::Result<Vec<String>> {
        let mut v: Vec<String> = std::fs::read_dir(p)?
            .map(|e| e.map(|e| e.file_name().into_string().unwrap_or_default()))
            .collect::<io::Result<_>>()?;
        v.sort();
        Ok(v)
    }
    async fn create_dir(&self, p: &Path) -> io::Result<()> {
        std::fs::create_dir_all(p)
    }
    async fn rename(&self, p: &Path, q: &Path) -> io::Result<()> {
        std::fs::rename(p, q)
    }
    async fn remove_file(&self, p: &Path) -> io::Result<()> {
        std::fs::remove_file(p)
    }
    async fn remove_dir(&self, p: &Path) -> io::Result<()> {
        std::fs::remove_dir(p)
    }
    async fn sync_dir(&self, p: &Path) -> io::Result<()> {
        std::fs::File::open(p)?.sync_all()
    }
    async fn read_file(&self, p: &Path, _: u64) -> io::Result<Vec<u8>> {
        std::fs::read(p)
    }
    async fn write_file(&self, p: &Path, b: &[u8]) -> io::Result<()> {
        let t = p.with_extension("tmp");
        std::fs::write(&t, b)?;
        std::fs::File::open(&t)?.sync_all()?;
        std::fs::rename(&t, p)?;
        std::fs::File::open(p.parent().expect("x"))?.sync_all()
    }
}
impl crate::io::Env for RealEnv {
    type Disk = RealDisk;
}
