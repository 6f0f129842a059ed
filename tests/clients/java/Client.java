import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's own client: JOB produce|consume DUMP.
 *
 * <p>The formats are those of tests/src/bin/clients/{job,corpus,dump}.rs.
 */
public final class Client {
    private static final long TIMEOUT_MS = 60_000;
    private static final int ACKED_TOPIC = 0;

    private record Run(String codec, String acks, String idempotent, int topic, int count) {}

    private record Place(long offset, int records) {}

    private final Map<TopicPartition, Integer> lanes = new HashMap<>();
    private final List<String> topics = new ArrayList<>();
    private final List<Run> runs = new ArrayList<>();
    private String bootstrap;
    private Path corpus;
    private int middleRecords;
    private int tailRecords;

    public static void main(String[] words) throws Exception {
        Client client = new Client(Path.of(words[0]));
        try (DataOutputStream dump = new DataOutputStream(
                new BufferedOutputStream(Files.newOutputStream(Path.of(words[2])), 1 << 20))) {
            switch (words[1]) {
                case "produce" -> client.produce(dump);
                case "consume" -> client.consume(dump);
                default -> throw new IllegalArgumentException(words[1]);
            }
        }
    }

    private Client(Path job) throws IOException {
        for (String line : Files.readAllLines(job)) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "bootstrap" -> bootstrap = words[1];
                case "corpus" -> corpus = Path.of(words[1]);
                case "middle" -> middleRecords = Integer.parseInt(words[1]);
                case "tail" -> tailRecords = Integer.parseInt(words[1]);
                case "topic" -> topics.add(words[2]);
                case "lane" -> lanes.put(
                        new TopicPartition(topics.get(Integer.parseInt(words[1])),
                                Integer.parseInt(words[2])),
                        Integer.parseInt(words[3]));
                case "run" -> runs.add(new Run(words[1], words[2], words[3],
                        Integer.parseInt(words[4]), Integer.parseInt(words[6])));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private void produce(DataOutputStream dump) throws Exception {
        int index = 0;
        try (DataInputStream in = new DataInputStream(
                new BufferedInputStream(Files.newInputStream(corpus), 1 << 20))) {
            for (Run run : runs) {
                produceRun(run, index, in, dump);
                index += run.count();
            }
        }
    }

    private void produceRun(Run run, int first, DataInputStream in, DataOutputStream dump)
            throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap,
                "acks", run.acks(),
                "compression.type", run.codec(),
                "enable.idempotence", run.idempotent(),
                "linger.ms", 5);
        ByteArraySerializer bytes = new ByteArraySerializer();
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, bytes, bytes)) {
            for (int left = run.count(); left > 0; left--) {
                answers.add(producer.send(readRecord(topics.get(run.topic()), in)));
            }
            producer.flush();
            for (int at = 0; at < answers.size(); at++) {
                RecordMetadata answer = answers.get(at).get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
                if (!run.acks().equals("0")) {
                    dump.writeByte('A');
                    dump.writeInt(first + at);
                    dump.writeInt(answer.partition());
                    dump.writeLong(answer.offset());
                }
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> readRecord(String topic, DataInputStream in)
            throws IOException {
        int partition = in.readInt();
        long timestampMs = in.readLong();
        byte[] key = readField(in);
        byte[] value = readField(in);
        List<Header> headers = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
            String name = new String(readField(in), StandardCharsets.UTF_8);
            headers.add(new RecordHeader(name, readField(in)));
        }
        return new ProducerRecord<>(topic, partition, timestampMs, key, value, headers);
    }

    private static byte[] readField(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }

    private void consume(DataOutputStream dump) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap,
                "enable.auto.commit", "false",
                "auto.offset.reset", "none",
                "max.poll.records", 2000);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(lanes.keySet());
            consumer.seekToBeginning(lanes.keySet());
            read(consumer, 'b', new HashMap<>(lanes), dump);
            seekAndRead(consumer, 't', dump);
            seekAndRead(consumer, 'm', dump);
            Collection<TopicPartition> acked = acked().keySet();
            Map<TopicPartition, Long> low = consumer.beginningOffsets(acked);
            Map<TopicPartition, Long> high = consumer.endOffsets(acked);
            for (TopicPartition partition : acked) {
                dump.writeByte('E');
                dump.writeByte(ACKED_TOPIC);
                dump.writeInt(partition.partition());
                dump.writeLong(low.get(partition));
                dump.writeLong(high.get(partition));
            }
        }
    }

    private Map<TopicPartition, Integer> acked() {
        Map<TopicPartition, Integer> acked = new HashMap<>(lanes);
        acked.keySet().removeIf(lane -> !lane.topic().equals(topics.get(ACKED_TOPIC)));
        return acked;
    }

    private void seekAndRead(
            KafkaConsumer<byte[], byte[]> consumer, char phase, DataOutputStream dump)
            throws IOException {
        Map<TopicPartition, Integer> wanted = new HashMap<>();
        acked().forEach((lane, count) -> {
            Place place = phase == 't'
                    ? new Place(Math.max(0, count - tailRecords), Math.min(count, tailRecords))
                    : new Place(count / 2, Math.min(count - count / 2, middleRecords));
            consumer.seek(lane, place.offset());
            wanted.put(lane, place.records());
        });
        read(consumer, phase, wanted, dump);
    }

    /**
     * Dumps records until each lane gave its number. What comes on top is dumped too, for the
     * comparison to see, except after a seek to the middle, which ends before the end.
     */
    private void read(
            KafkaConsumer<byte[], byte[]> consumer,
            char phase,
            Map<TopicPartition, Integer> wanted,
            DataOutputStream dump) throws IOException {
        int missing = wanted.values().stream().mapToInt(Integer::intValue).sum();
        long last = System.currentTimeMillis();
        while (missing > 0) {
            var records = consumer.poll(Duration.ofMillis(100));
            if (!records.isEmpty()) {
                last = System.currentTimeMillis();
            } else if (System.currentTimeMillis() - last > TIMEOUT_MS) {
                throw new IOException(phase + ": " + missing + " records did not come");
            }
            for (ConsumerRecord<byte[], byte[]> record : records) {
                TopicPartition lane = new TopicPartition(record.topic(), record.partition());
                int left = wanted.getOrDefault(lane, 0);
                if (left > 0) {
                    wanted.put(lane, left - 1);
                    missing--;
                } else if (phase == 'm') {
                    continue;
                }
                writeRead(phase, record, dump);
            }
        }
    }

    private void writeRead(
            char phase, ConsumerRecord<byte[], byte[]> record, DataOutputStream dump)
            throws IOException {
        dump.writeByte('R');
        dump.writeByte(phase);
        dump.writeByte(topics.indexOf(record.topic()));
        dump.writeInt(record.partition());
        dump.writeLong(record.offset());
        dump.writeLong(record.timestamp());
        writeField(record.key(), dump);
        writeField(record.value(), dump);
        Header[] headers = record.headers().toArray();
        dump.writeInt(headers.length);
        for (Header header : headers) {
            writeField(header.key().getBytes(StandardCharsets.UTF_8), dump);
            writeField(header.value(), dump);
        }
    }

    private static void writeField(byte[] field, DataOutputStream dump) throws IOException {
        if (field == null) {
            dump.writeInt(-1);
            return;
        }
        dump.writeInt(field.length);
        dump.write(field);
    }
}
