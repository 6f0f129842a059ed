package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const ackedTopic = 0

// job is what the client is told.
type job struct {
	bootstrap, corpus string
	middle, tail      int
	topics            []string
	index             map[string]int
	lanes             map[lane]int
	runs              []run
}

// lane is a topic, by index, and a partition.
type lane struct {
	topic     int
	partition int32
}

// run is a part of the corpus that goes out through one producer.
type run struct {
	codec, acks         string
	idempotent          bool
	topic, first, count int
}

func readJob(path string) (*job, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	job := &job{index: map[string]int{}, lanes: map[lane]int{}}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		word, words, _ := strings.Cut(line, " ")
		switch word {
		case "bootstrap":
			job.bootstrap = words
		case "corpus":
			job.corpus = words
		case "middle":
			_, err = fmt.Sscan(words, &job.middle)
		case "tail":
			_, err = fmt.Sscan(words, &job.tail)
		case "topic":
			var index int
			var name string
			_, err = fmt.Sscan(words, &index, &name)
			job.topics = append(job.topics, name)
			job.index[name] = index
		case "lane":
			var lane lane
			var count int
			_, err = fmt.Sscan(words, &lane.topic, &lane.partition, &count)
			job.lanes[lane] = count
		case "run":
			var run run
			_, err = fmt.Sscan(words, &run.codec, &run.acks, &run.idempotent, &run.topic,
				&run.first, &run.count)
			job.runs = append(job.runs, run)
		default:
			err = fmt.Errorf("job sheet: %s", line)
		}
		if err != nil {
			return nil, err
		}
	}
	return job, nil
}

// corpus reads records.
type corpus struct{ in *bufio.Reader }

func openCorpus(path string) (*corpus, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &corpus{bufio.NewReaderSize(file, 1<<20)}, nil
}

func (c *corpus) next() (*kgo.Record, error) {
	var head struct {
		Partition   int32
		TimestampMs int64
	}
	if err := binary.Read(c.in, binary.BigEndian, &head); err != nil {
		return nil, err
	}
	record := &kgo.Record{Partition: head.Partition, Timestamp: time.UnixMilli(head.TimestampMs)}
	var err error
	if record.Key, err = c.field(); err != nil {
		return nil, err
	}
	if record.Value, err = c.field(); err != nil {
		return nil, err
	}
	var headers int32
	if err := binary.Read(c.in, binary.BigEndian, &headers); err != nil {
		return nil, err
	}
	for ; headers > 0; headers-- {
		key, err := c.field()
		if err != nil {
			return nil, err
		}
		value, err := c.field()
		if err != nil {
			return nil, err
		}
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: string(key), Value: value})
	}
	return record, nil
}

func (c *corpus) field() ([]byte, error) {
	var length int32
	if err := binary.Read(c.in, binary.BigEndian, &length); err != nil || length < 0 {
		return nil, err
	}
	field := make([]byte, length)
	_, err := io.ReadFull(c.in, field)
	return field, err
}

// dump is what the client reports; the first error of its file comes out of close.
type dump struct {
	file  *os.File
	out   *bufio.Writer
	entry []byte
}

func createDump(path string) (*dump, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &dump{file: file, out: bufio.NewWriterSize(file, 1<<20)}, nil
}

func (d *dump) acked(index int, partition int32, offset int64) {
	d.entry = append(d.entry[:0], 'A')
	d.int32(int32(index))
	d.int32(partition)
	d.int64(offset)
	d.out.Write(d.entry)
}

func (d *dump) ends(topic int, partition int32, low, high int64) {
	d.entry = append(d.entry[:0], 'E', byte(topic))
	d.int32(partition)
	d.int64(low)
	d.int64(high)
	d.out.Write(d.entry)
}

func (d *dump) read(phase byte, topic int, record *kgo.Record) {
	d.entry = append(d.entry[:0], 'R', phase, byte(topic))
	d.int32(record.Partition)
	d.int64(record.Offset)
	d.int64(record.Timestamp.UnixMilli())
	d.field(record.Key)
	d.field(record.Value)
	d.int32(int32(len(record.Headers)))
	for _, header := range record.Headers {
		d.field([]byte(header.Key))
		d.field(header.Value)
	}
	d.out.Write(d.entry)
}

func (d *dump) int32(number int32) {
	d.entry = binary.BigEndian.AppendUint32(d.entry, uint32(number))
}

func (d *dump) int64(number int64) {
	d.entry = binary.BigEndian.AppendUint64(d.entry, uint64(number))
}

func (d *dump) field(field []byte) {
	if field == nil {
		d.int32(-1)
		return
	}
	d.int32(int32(len(field)))
	d.entry = append(d.entry, field...)
}

func (d *dump) close() error {
	if err := d.out.Flush(); err != nil {
		return err
	}
	return d.file.Close()
}
