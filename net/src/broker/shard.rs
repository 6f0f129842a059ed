//! The main task of one shard: open its disks and logs, serve its connections, close in order.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use millrace_engine::{
    error::{Error, Result},
    io::{
        Clock, Spawn,
        buf::Pool,
        file::RealDisk,
        runtime::{RealEnv, ShardContext},
    },
    shard::{LogDirectory, Parts, Shard, message::Message, signal::race},
};

use super::{Plan, Ready, accept};
use crate::{
    conn::{self, Connections},
    handler::{Broker, LongFrames, ProducerIds, Settings},
    limits,
    wire::Encoder,
};

pub(super) async fn run(context: ShardContext<Message>, plan: Arc<Plan>) {
    let (shard, disks) = match open(context, &plan).await {
        Ok(opened) => opened,
        Err(error) => return plan.report(Err(error)),
    };
    let env = shard.env().clone();
    if shard.id().0 == 0 {
        let listeners =
            std::mem::take(&mut *plan.listeners.lock().unwrap_or_else(PoisonError::into_inner));
        let turn = accept::Turn::default();
        for (index, listener) in listeners.into_iter().enumerate() {
            env.spawn(accept::run(shard.clone(), listener, index, turn.clone()));
        }
    }
    let interval = Duration::from_millis(plan.config.log_retention_check_interval_ms);
    env.spawn_background(shard.clone().run_upkeep(interval));
    let broker = Rc::new(broker_of(&plan, shard.clone()));
    let connections = Connections::new(broker.clone());
    env.spawn(conn::sweep::run(connections.clone()));
    plan.report(Ok(Ready { disks, recovered: broker.shard.counters().recovered }));
    serve(&broker, &connections).await;
    let closed = shard.close().await;
    plan.hops.fetch_add(shard.counters().hops, Ordering::AcqRel);
    if let Err(error) = closed {
        plan.unclean(Error::new(error.kind(), format!("not closed clean: {error}")));
    }
}

async fn open(
    context: ShardContext<Message>,
    plan: &Plan,
) -> Result<(Shard<RealEnv>, Vec<String>)> {
    let mut directories = Vec::with_capacity(plan.config.log_dirs.len());
    let mut disks = Vec::with_capacity(plan.config.log_dirs.len());
    for (path, health) in plan.config.log_dirs.iter().zip(&plan.health) {
        let disk = RealDisk::open(path)
            .await
            .map_err(|error| Error::from_io(&path.display().to_string(), &error))?;
        disks.push(disk.describe().to_owned());
        let (env, pool) = (&context.env, &context.pool);
        directories.push(LogDirectory::new(env, pool, path.clone(), disk, health.clone()));
    }
    let expiration_ms = plan.config.producer_id_expiration_ms;
    let shard = Shard::start(Parts {
        id: context.id,
        count: u16::try_from(context.count).expect("shards are bounded"),
        env: context.env,
        pool: context.pool,
        mesh: context.mesh,
        directories,
        image: plan.image.clone(),
        producer_id_expiration_ms: i64::try_from(expiration_ms).unwrap_or(i64::MAX),
    })
    .await;
    Ok((shard, disks))
}

fn broker_of(plan: &Plan, shard: Shard<RealEnv>) -> Broker {
    let config = &plan.config;
    let forever = Duration::from_secs(u64::from(u32::MAX));
    let settings = Settings {
        frame_cap_bytes: config.socket_request_max_bytes,
        idle_timeout: config.connections_max_idle_ms.map_or(forever, Duration::from_millis),
        fetch_max_bytes: config.fetch_max_bytes,
        auto_create_topics: config.auto_create_topics_enable,
        connections_max: config.max_connections.div_ceil(usize::from(shard.count())),
    };
    Broker {
        shard,
        meta: plan.meta.clone(),
        published: plan.published.clone(),
        config: config.clone(),
        settings,
        encoder: RefCell::new(Encoder::for_answers(Pool::new(limits::ANSWER_BUDGET_BYTES))),
        long_frames: LongFrames::default(),
        producer_ids: ProducerIds::default(),
        listeners: plan.advertised.clone().into(),
    }
}

/// Serves connections until the shard is told to stop, then lets them finish what they read.
async fn serve(broker: &Rc<Broker>, connections: &Rc<Connections>) {
    let env = broker.shard.env();
    while let Some(arrival) = broker.shard.next_connection().await {
        // Over the limit, dropping the socket closes it.
        if connections.count() < broker.settings.connections_max {
            env.spawn(conn::serve(connections.clone(), arrival));
        }
    }
    let drained = async {
        while connections.is_busy() {
            env.sleep(limits::DRAIN_INTERVAL).await;
        }
        // Other shards may still ask for this one's partitions until they have drained too.
        broker.shard.drained_everywhere().await;
    };
    race(drained, env.sleep(limits::DRAIN_DEADLINE)).await;
}
