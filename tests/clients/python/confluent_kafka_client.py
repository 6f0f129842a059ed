"""confluent-kafka as a client: JOB produce|consume DUMP."""

import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

import job as sheet

TIMEOUT_S = 60


def produce(job, dump):
    corpus = sheet.read_corpus(job.corpus)
    for run in job.runs:
        producer = Producer({
            "bootstrap.servers": job.bootstrap,
            "acks": run.acks,
            "compression.type": run.codec,
            "enable.idempotence": run.idempotent,
        })
        reports = []

        def report(error, message, index):
            if error is not None:
                raise RuntimeError(f"record {index}: {error}")
            reports.append((index, message.partition(), message.offset()))

        for index in range(run.first, run.first + run.count):
            record = next(corpus)
            producer.produce(
                job.topics[run.topic],
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=record.headers,
                on_delivery=lambda error, message, index=index: report(error, message, index),
            )
            producer.poll(0)
        if producer.flush(TIMEOUT_S) or len(reports) != run.count:
            raise RuntimeError(f"{len(reports)} of {run.count} delivery reports")
        if run.acks != "0":
            for entry in reports:
                dump.acked(*entry)


def consume(job, dump):
    consumer = Consumer({
        "bootstrap.servers": job.bootstrap,
        # The library wants an id even for assign; no group is joined and nothing committed.
        "group.id": "assign-only",
        "enable.auto.commit": False,
    })
    consumer.assign([TopicPartition(job.topics[t], p, 0) for t, p in job.lanes])
    read(consumer, job, dump, b"b", job.lanes)
    acked = job.topics[sheet.ACKED_TOPIC]
    for phase, places in ((b"t", job.tail()), (b"m", job.middle())):
        for partition, (offset, _) in places.items():
            consumer.seek(TopicPartition(acked, partition, offset))
        wanted = {(sheet.ACKED_TOPIC, p): count for p, (_, count) in places.items()}
        read(consumer, job, dump, phase, wanted)
    for partition, _ in job.acked_lanes():
        ends = consumer.get_watermark_offsets(TopicPartition(acked, partition), TIMEOUT_S)
        dump.ends(sheet.ACKED_TOPIC, partition, *ends)
    consumer.close()


def read(consumer, job, dump, phase, wanted):
    missing = sheet.Missing(phase, wanted)
    topics = {name: index for index, name in enumerate(job.topics)}
    last = time.monotonic()
    while missing.total:
        messages = consumer.consume(500, 0.1)
        if messages:
            last = time.monotonic()
        elif time.monotonic() - last > TIMEOUT_S:
            raise RuntimeError(f"{phase}: {missing.total} records did not come")
        for message in messages:
            if message.error():
                raise RuntimeError(message.error())
            topic, partition = topics[message.topic()], message.partition()
            if missing.take((topic, partition)):
                _, timestamp_ms = message.timestamp()
                dump.read(phase, topic, message.offset(), sheet.Record(
                    partition, timestamp_ms, message.key(), message.value(),
                    message.headers() or [],
                ))


if __name__ == "__main__":
    out = sheet.Dump(sys.argv[3])
    {"produce": produce, "consume": consume}[sys.argv[2]](sheet.Job(sys.argv[1]), out)
    out.close()
