"""The task sheet, the corpus file and the dump, shared by the Python clients.

The formats are those of tests/src/bin/clients/{job,corpus,dump}.rs: big-endian integers and
length-prefixed fields, where length -1 says null.
"""

import struct
from collections import namedtuple

ACKED_TOPIC = 0

Run = namedtuple("Run", "codec acks idempotent topic first count")
Record = namedtuple("Record", "partition timestamp_ms key value headers")


class Job:
    """What the client is told."""

    def __init__(self, path):
        self.topics, self.runs, self.lanes = [], [], {}
        with open(path, encoding="utf-8") as sheet:
            for line in sheet:
                self._take(*line.split())

    def _take(self, word, *words):
        if word == "bootstrap":
            self.bootstrap = words[0]
        elif word == "corpus":
            self.corpus = words[0]
        elif word == "middle":
            self.middle_records = int(words[0])
        elif word == "tail":
            self.tail_records = int(words[0])
        elif word == "topic":
            self.topics.append(words[1])
        elif word == "lane":
            topic, partition, count = map(int, words)
            self.lanes[topic, partition] = count
        elif word == "run":
            codec, acks, idempotent, *numbers = words
            self.runs.append(Run(codec, acks, idempotent == "true", *map(int, numbers)))
        else:
            raise ValueError(f"job sheet: {word}")

    def acked_lanes(self):
        """(partition, records) of the topic whose offsets are known."""
        return [(p, count) for (topic, p), count in self.lanes.items() if topic == ACKED_TOPIC]

    def tail(self):
        """{partition: (offset to seek to, records to read)} for the last records."""
        return {
            partition: (max(0, count - self.tail_records), min(count, self.tail_records))
            for partition, count in self.acked_lanes()
        }

    def middle(self):
        """{partition: (offset to seek to, records to read)} from half of the records on."""
        return {
            partition: (count // 2, min(count - count // 2, self.middle_records))
            for partition, count in self.acked_lanes()
        }


def read_corpus(path):
    """Yields the records of the corpus file."""
    with open(path, "rb", buffering=1 << 20) as corpus:

        def field():
            (length,) = struct.unpack(">i", corpus.read(4))
            return None if length < 0 else corpus.read(length)

        while head := corpus.read(12):
            partition, timestamp_ms = struct.unpack(">iq", head)
            key, value = field(), field()
            (count,) = struct.unpack(">i", corpus.read(4))
            headers = [(field().decode(), field()) for _ in range(count)]
            yield Record(partition, timestamp_ms, key, value, headers)


class Dump:
    """What the client reports."""

    def __init__(self, path):
        self._out = open(path, "wb", buffering=1 << 20)

    def acked(self, index, partition, offset):
        """The broker acknowledged record `index` of the corpus."""
        self._out.write(struct.pack(">ciiq", b"A", index, partition, offset))

    def ends(self, topic, partition, low, high):
        """The client's look-up of the first and the next offset."""
        self._out.write(struct.pack(">cBiqq", b"E", topic, partition, low, high))

    def read(self, phase, topic, offset, record):
        """The client read `record`; phase is `b`eginning, `t`ail or `m`iddle."""
        partition, timestamp_ms, key, value, headers = record
        write = self._out.write
        write(struct.pack(">ccBiqq", b"R", phase, topic, partition, offset, timestamp_ms))
        self._field(key)
        self._field(value)
        write(struct.pack(">i", len(headers)))
        for name, header in headers:
            self._field(name.encode())
            self._field(header)

    def _field(self, field):
        if field is None:
            self._out.write(b"\xff\xff\xff\xff")
        else:
            self._out.write(struct.pack(">i", len(field)))
            self._out.write(field)

    def close(self):
        """Writes out what is buffered."""
        self._out.close()


class Missing:
    """Counts down the records that a phase still has to read."""

    def __init__(self, phase, wanted):
        self._phase = phase
        self._wanted = dict(wanted)
        self.total = sum(self._wanted.values())

    def take(self, lane):
        """Whether a record of (topic, partition) is to be dumped.

        What comes on top is dumped too, for the comparison to see, except after a seek to the
        middle, which ends before the end of the partition.
        """
        if self._wanted.get(lane, 0) > 0:
            self._wanted[lane] -= 1
            self.total -= 1
            return True
        return self._phase != b"m"
