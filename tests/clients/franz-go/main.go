// Command franz-go is franz-go as a client: JOB produce|consume DUMP.
//
// The formats are those of tests/src/bin/clients/{job,corpus,dump}.rs.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const timeout = 60 * time.Second

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

func main() {
	job, err := readJob(os.Args[1])
	check(err)
	out, err := createDump(os.Args[3])
	check(err)
	switch os.Args[2] {
	case "produce":
		err = produce(job, out)
	case "consume":
		err = consume(job, out)
	default:
		err = fmt.Errorf("unknown half %q", os.Args[2])
	}
	check(err)
	check(out.close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "franz-go:", err)
		os.Exit(1)
	}
}

func produce(job *job, out *dump) error {
	corpus, err := openCorpus(job.corpus)
	if err != nil {
		return err
	}
	for _, run := range job.runs {
		if err := produceRun(job, run, corpus, out); err != nil {
			return err
		}
	}
	return nil
}

func produceRun(job *job, run run, corpus *corpus, out *dump) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(job.bootstrap),
		kgo.RequiredAcks(acks[run.acks]),
		kgo.ProducerBatchCompression(codecs[run.codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !run.idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var lock sync.Mutex
	var failure error
	reports := 0
	for index := run.first; index < run.first+run.count; index++ {
		record, err := corpus.next()
		if err != nil {
			return err
		}
		record.Topic = job.topics[run.topic]
		client.Produce(ctx, record, func(record *kgo.Record, err error) {
			lock.Lock()
			defer lock.Unlock()
			reports++
			if err != nil {
				failure = fmt.Errorf("record %d: %w", index, err)
			} else if run.acks != "0" {
				out.acked(index, record.Partition, record.Offset)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	if failure == nil && reports != run.count {
		failure = fmt.Errorf("%d of %d delivery reports", reports, run.count)
	}
	return failure
}

func consume(job *job, out *dump) error {
	places := map[string]map[int32]kgo.Offset{}
	for lane := range job.lanes {
		name := job.topics[lane.topic]
		if places[name] == nil {
			places[name] = map[int32]kgo.Offset{}
		}
		places[name][lane.partition] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(job.bootstrap), kgo.ConsumePartitions(places))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := read(client, job, out, 'b', job.lanes); err != nil {
		return err
	}
	for _, phase := range []byte{'t', 'm'} {
		offsets, wanted := map[int32]kgo.EpochOffset{}, map[lane]int{}
		for lane, count := range job.lanes {
			if lane.topic != ackedTopic {
				continue
			}
			start, records := max(0, count-job.tail), min(count, job.tail)
			if phase == 'm' {
				start, records = count/2, min(count-count/2, job.middle)
			}
			offsets[lane.partition] = kgo.EpochOffset{Epoch: -1, Offset: int64(start)}
			wanted[lane] = records
		}
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{job.topics[ackedTopic]: offsets})
		if err := read(client, job, out, phase, wanted); err != nil {
			return err
		}
	}
	return ends(client, job, out)
}

// read dumps records until each lane of wanted gave its number. What comes on top is dumped too,
// for the comparison to see, except after a seek to the middle, which ends before the end.
func read(client *kgo.Client, job *job, out *dump, phase byte, wanted map[lane]int) error {
	missing, left := 0, map[lane]int{}
	for lane, count := range wanted {
		left[lane] = count
		missing += count
	}
	for missing > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		fetches := client.PollFetches(ctx)
		cancel()
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("%c: %d records did not come: %w", phase, missing, err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			lane := lane{job.index[record.Topic], record.Partition}
			if left[lane] > 0 {
				left[lane]--
				missing--
			} else if phase == 'm' {
				return
			}
			out.read(phase, lane.topic, record)
		})
	}
	return nil
}

// ends asks ListOffsets for the first and the next offset of the acknowledged topic.
func ends(client *kgo.Client, job *job, out *dump) error {
	low, err := listOffsets(client, job, -2)
	if err != nil {
		return err
	}
	high, err := listOffsets(client, job, -1)
	if err != nil {
		return err
	}
	for partition, offset := range high {
		out.ends(ackedTopic, partition, low[partition], offset)
	}
	return nil
}

func listOffsets(client *kgo.Client, job *job, timestamp int64) (map[int32]int64, error) {
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = job.topics[ackedTopic]
	for lane := range job.lanes {
		if lane.topic == ackedTopic {
			partition := kmsg.NewListOffsetsRequestTopicPartition()
			partition.Partition = lane.partition
			partition.Timestamp = timestamp
			topic.Partitions = append(topic.Partitions, partition)
		}
	}
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	request.Topics = append(request.Topics, topic)
	offsets := map[int32]int64{}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, shard := range client.RequestSharded(ctx, request) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, topic := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, partition := range topic.Partitions {
				if partition.ErrorCode != 0 {
					return nil, fmt.Errorf("ListOffsets: error %d", partition.ErrorCode)
				}
				offsets[partition.Partition] = partition.Offset
			}
		}
	}
	return offsets, nil
}
