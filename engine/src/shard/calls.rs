//! Questions off the hot path: offsets by position and time, epoch ends, DeleteRecords.

pub use super::frame::CallCode as Call;
use super::{
    Asked, Shard,
    failure::Failure,
    frame::{CallResultCode, Header},
    join::Join,
    partition::Partition,
};
use crate::{
    io::{Env, buf::Chain},
    types::{LeaderEpoch, Offset, ShardId, TopicPartition},
};

/// An answer: where, when, and under which leader; -1 for what does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallAnswer {
    /// Offset, or -1 when there is none.
    pub offset: i64,
    /// Timestamp of the record in milliseconds, or -1.
    pub timestamp_ms: i64,
    /// Leader epoch of the record or the log, or -1.
    pub leader_epoch: i32,
}

impl CallAnswer {
    const NONE: Self = Self { offset: -1, timestamp_ms: -1, leader_epoch: -1 };
}

impl<E: Env> Shard<E> {
    /// Asks the owner of `partition`; what `argument` means is the call's to say.
    pub async fn call(
        &self,
        partition: TopicPartition,
        call: Call,
        argument: i64,
    ) -> Result<CallAnswer, Failure> {
        let owner = self.owner(partition);
        if owner == self.id() {
            let found = self.find(partition).ok_or_else(|| self.absence(partition))?;
            return found.answer_call(call, argument).await;
        }
        let join = Join::new(1);
        let token = self.inner.asked.borrow_mut().insert(Asked::Call(join.slot(0)));
        let partition = super::key_of(partition);
        self.ask(owner, token, &Header::Call { token, partition, call, argument }, Chain::new())
            .await;
        join.wait().await.pop().flatten().unwrap_or(Err(Failure::NotOwner))
    }

    pub(super) fn answer_call(
        &self,
        to: ShardId,
        token: u64,
        partition: TopicPartition,
        call: Call,
        argument: i64,
    ) {
        let shard = self.clone();
        self.inner.env.spawn(async move {
            let answer = match shard.find(partition) {
                Some(partition) => partition.answer_call(call, argument).await,
                None => Err(shard.absence(partition)),
            };
            let failure = Failure::code_of(&answer);
            let answer = answer.unwrap_or(CallAnswer::NONE);
            let result = CallResultCode {
                failure,
                offset: answer.offset,
                timestamp_ms: answer.timestamp_ms,
                leader_epoch: answer.leader_epoch,
            };
            shard.post(to, &Header::CallDone { token, result }, Chain::new());
        });
    }

    pub(super) fn call_done(&self, token: u64, result: CallResultCode) {
        if let Some(Asked::Call(slot)) = self.inner.asked.borrow_mut().take(token) {
            slot.fulfil(match Failure::from_code(result.failure) {
                Some(failure) => Err(failure),
                None => Ok(CallAnswer {
                    offset: result.offset,
                    timestamp_ms: result.timestamp_ms,
                    leader_epoch: result.leader_epoch,
                }),
            });
        }
    }
}

impl<E: Env> Partition<E> {
    async fn answer_call(&self, call: Call, argument: i64) -> Result<CallAnswer, Failure> {
        let marks = self.log.marks();
        let at = |offset: Offset| CallAnswer {
            offset: offset.0,
            timestamp_ms: -1,
            leader_epoch: self.epoch().0,
        };
        match call {
            Call::Earliest => Ok(CallAnswer {
                leader_epoch: self.log.epoch_at(marks.log_start()).unwrap_or(self.epoch()).0,
                ..at(marks.log_start())
            }),
            Call::Latest => Ok(at(marks.high_watermark())),
            Call::LatestStable => Ok(at(marks.last_stable_offset())),
            Call::AtTimestamp => {
                self.found(self.log.offset_for_timestamp(argument, marks.high_watermark()).await)
            }
            Call::MaxTimestamp => self.found(self.log.max_timestamp_offset().await),
            Call::DeleteRecords => self.delete_records(argument).await,
            Call::EpochEnd => Ok(self.epoch_end(argument)),
        }
    }

    fn found(
        &self,
        found: crate::error::Result<Option<crate::batch::TimestampedOffset>>,
    ) -> Result<CallAnswer, Failure> {
        let Some(found) = found.map_err(|error| Failure::from(error.kind()))? else {
            return Ok(CallAnswer::NONE);
        };
        if found.offset >= self.log.marks().high_watermark() {
            return Ok(CallAnswer::NONE);
        }
        Ok(CallAnswer {
            offset: found.offset.0,
            timestamp_ms: found.timestamp_ms,
            leader_epoch: self.log.epoch_at(found.offset).unwrap_or(self.epoch()).0,
        })
    }

    async fn delete_records(&self, argument: i64) -> Result<CallAnswer, Failure> {
        let high_watermark = self.log.marks().high_watermark();
        let to = if argument == -1 { high_watermark } else { Offset(argument) };
        if to < Offset(0) || to > high_watermark {
            return Err(Failure::OffsetOutOfRange);
        }
        let start = self.log.delete_records(to).await.map_err(|e| Failure::from(e.kind()))?;
        Ok(CallAnswer { offset: start.0, ..CallAnswer::NONE })
    }

    fn epoch_end(&self, argument: i64) -> CallAnswer {
        let asked = LeaderEpoch(i32::try_from(argument).unwrap_or(i32::MAX));
        if asked > self.epoch() {
            return CallAnswer::NONE;
        }
        match self.log.epoch_end(asked) {
            Some((epoch, end)) => {
                CallAnswer { offset: end.0, timestamp_ms: -1, leader_epoch: epoch.0 }
            }
            None => CallAnswer::NONE,
        }
    }
}
