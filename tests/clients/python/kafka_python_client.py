"""kafka-python as a client: JOB produce|consume DUMP."""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import job as sheet

TIMEOUT_S = 60


def produce(job, dump):
    corpus = sheet.read_corpus(job.corpus)
    for run in job.runs:
        producer = KafkaProducer(
            bootstrap_servers=job.bootstrap,
            acks={"0": 0, "1": 1, "all": "all"}[run.acks],
            compression_type=None if run.codec == "none" else run.codec,
            enable_idempotence=run.idempotent,
            linger_ms=5,
            batch_size=100_000,
        )
        futures = []
        for index in range(run.first, run.first + run.count):
            record = next(corpus)
            futures.append((index, producer.send(
                job.topics[run.topic],
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )))
        producer.flush(TIMEOUT_S)
        for index, future in futures:
            metadata = future.get(TIMEOUT_S)
            if run.acks != "0":
                dump.acked(index, metadata.partition, metadata.offset)
        producer.close()


def consume(job, dump):
    consumer = KafkaConsumer(
        bootstrap_servers=job.bootstrap, group_id=None, enable_auto_commit=False,
        max_poll_records=2000,
    )
    consumer.assign([TopicPartition(job.topics[t], p) for t, p in job.lanes])
    consumer.seek_to_beginning()
    read(consumer, job, dump, b"b", job.lanes)
    acked = job.topics[sheet.ACKED_TOPIC]
    for phase, places in ((b"t", job.tail()), (b"m", job.middle())):
        for partition, (offset, _) in places.items():
            consumer.seek(TopicPartition(acked, partition), offset)
        wanted = {(sheet.ACKED_TOPIC, p): count for p, (_, count) in places.items()}
        read(consumer, job, dump, phase, wanted)
    partitions = [TopicPartition(acked, p) for p, _ in job.acked_lanes()]
    low, high = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for partition in partitions:
        ends = low[partition], high[partition]
        dump.ends(sheet.ACKED_TOPIC, partition.partition, *ends)
    consumer.close()


def read(consumer, job, dump, phase, wanted):
    missing = sheet.Missing(phase, wanted)
    topics = {name: index for index, name in enumerate(job.topics)}
    last = time.monotonic()
    while missing.total:
        batches = consumer.poll(timeout_ms=100)
        if batches:
            last = time.monotonic()
        elif time.monotonic() - last > TIMEOUT_S:
            raise RuntimeError(f"{phase}: {missing.total} records did not come")
        for place, messages in batches.items():
            topic = topics[place.topic]
            for message in messages:
                if missing.take((topic, place.partition)):
                    dump.read(phase, topic, message.offset, sheet.Record(
                        place.partition, message.timestamp, message.key, message.value,
                        message.headers,
                    ))


if __name__ == "__main__":
    out = sheet.Dump(sys.argv[3])
    {"produce": produce, "consume": consume}[sys.argv[2]](sheet.Job(sys.argv[1]), out)
    out.close()
