// kafkajs as a client: JOB produce DUMP. It cannot read without a group, so another client reads.
//
// The formats are those of tests/src/bin/clients/{job,corpus,dump}.rs.
'use strict'

const fs = require('fs')
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
const Lz4 = require('kafkajs-lz4')
const Snappy = require('kafkajs-snappy')
const Zstd = require('@kafkajs/zstd')

CompressionCodecs[CompressionTypes.LZ4] = new Lz4().codec
CompressionCodecs[CompressionTypes.Snappy] = Snappy
CompressionCodecs[CompressionTypes.ZSTD] = Zstd()

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

// A send becomes one batch per partition, which must stay below the broker's default of 1 MiB.
const CHUNK_BYTES = 300_000
const CHUNK_RECORDS = 1000

function readJob(path) {
  const job = { topics: [], runs: [] }
  for (const line of fs.readFileSync(path, 'utf8').split('\n')) {
    const [word, ...words] = line.split(' ')
    if (word === 'bootstrap') job.bootstrap = words[0]
    if (word === 'corpus') job.corpus = words[0]
    if (word === 'topic') job.topics.push(words[1])
    if (word === 'run') {
      const [codec, acks, idempotent, topic, first, count] = words
      job.runs.push({
        codec,
        acks: { 0: 0, 1: 1, all: -1 }[acks],
        idempotent: idempotent === 'true',
        topic: Number(topic),
        first: Number(first),
        count: Number(count),
      })
    }
  }
  return job
}

class Corpus {
  constructor(path) {
    this.bytes = fs.readFileSync(path)
    this.at = 0
  }

  int32() {
    this.at += 4
    return this.bytes.readInt32BE(this.at - 4)
  }

  field() {
    const length = this.int32()
    if (length < 0) return null
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }

  next() {
    const partition = this.int32()
    const timestamp = this.bytes.readBigInt64BE(this.at).toString()
    this.at += 8
    const key = this.field()
    const value = this.field()
    const headers = {}
    for (let left = this.int32(); left > 0; left -= 1) {
      const name = this.field().toString()
      const header = this.field()
      // A repeated header is a list, which keeps the order among its own.
      if (name in headers) headers[name] = [].concat(headers[name], header)
      else headers[name] = header
    }
    return { partition, timestamp, key, value, headers }
  }
}

function ackEntry(index, partition, offset) {
  const entry = Buffer.alloc(17)
  entry.write('A')
  entry.writeInt32BE(index, 1)
  entry.writeInt32BE(partition, 5)
  entry.writeBigInt64BE(offset, 9)
  return entry
}

function endsEntry({ partition, low, high }) {
  const entry = Buffer.alloc(22)
  entry.write('E')
  entry.writeInt32BE(partition, 2)
  entry.writeBigInt64BE(BigInt(low), 6)
  entry.writeBigInt64BE(BigInt(high), 14)
  return entry
}

async function send(producer, topic, run, chunk, entries) {
  const messages = chunk.map(({ record }) => record)
  const compression = CODECS[run.codec]
  const answers = await producer.send({ topic, acks: run.acks, compression, messages })
  if (run.acks === 0) return
  const next = new Map(answers.map(({ partition, baseOffset }) => [partition, BigInt(baseOffset)]))
  for (const { index, record } of chunk) {
    const offset = next.get(record.partition)
    next.set(record.partition, offset + 1n)
    entries.push(ackEntry(index, record.partition, offset))
  }
}

async function produceRun(kafka, job, run, corpus, entries) {
  const producer = kafka.producer({
    idempotent: run.idempotent,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
  })
  await producer.connect()
  const topic = job.topics[run.topic]
  let chunk = []
  let bytes = 0
  for (let index = run.first; index < run.first + run.count; index += 1) {
    const record = corpus.next()
    const size = record.value === null ? 0 : record.value.length
    if (chunk.length > 0 && (bytes + size > CHUNK_BYTES || chunk.length === CHUNK_RECORDS)) {
      await send(producer, topic, run, chunk, entries)
      chunk = []
      bytes = 0
    }
    chunk.push({ index, record })
    bytes += size
  }
  await send(producer, topic, run, chunk, entries)
  await producer.disconnect()
}

async function main([jobPath, half, dumpPath]) {
  if (half !== 'produce') throw new Error('kafkajs reads only in groups')
  const job = readJob(jobPath)
  const corpus = new Corpus(job.corpus)
  const kafka = new Kafka({ brokers: [job.bootstrap], logLevel: logLevel.ERROR })
  const entries = []
  for (const run of job.runs) await produceRun(kafka, job, run, corpus, entries)
  const admin = kafka.admin()
  await admin.connect()
  const ends = await admin.fetchTopicOffsets(job.topics[0])
  await admin.disconnect()
  for (const end of ends) entries.push(endsEntry(end))
  fs.writeFileSync(dumpPath, Buffer.concat(entries))
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
