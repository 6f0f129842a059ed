import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.InputStream;
import java.io.PrintWriter;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Writes the golden frames of net/src/wire/fixtures with Apache Kafka's own classes, so that no
 * byte of them comes from Millrace. Every message is filled from Kafka's JSON schema. Run by hand:
 *
 *   java -cp "KAFKA_LIB/*" tests/golden/GoldenFrames.java net/src/wire/fixtures
 *
 * A line is: direction, version, variant, and header with body in hex, without the length.
 * Variants: "default" as Kafka constructs it, "null" with null wherever the schema allows it (but
 * for record sets, which Millrace never sends as null), "filled" with every field set.
 */
public class GoldenFrames {
    static final int CORRELATION_ID = 0x01020304;
    static final String CLIENT_ID = "golden";
    static int counter;

    record Row(ApiKeys key, int min, int max) {}

    static final List<Row> ROWS = List.of(
        new Row(ApiKeys.PRODUCE, 3, 13),
        new Row(ApiKeys.FETCH, 4, 18),
        new Row(ApiKeys.LIST_OFFSETS, 1, 11),
        new Row(ApiKeys.METADATA, 0, 13),
        new Row(ApiKeys.FIND_COORDINATOR, 0, 6),
        new Row(ApiKeys.API_VERSIONS, 0, 4),
        new Row(ApiKeys.CREATE_TOPICS, 2, 7),
        new Row(ApiKeys.DELETE_TOPICS, 1, 6),
        new Row(ApiKeys.DELETE_RECORDS, 0, 2),
        new Row(ApiKeys.INIT_PRODUCER_ID, 0, 5),
        new Row(ApiKeys.OFFSET_FOR_LEADER_EPOCH, 2, 4),
        new Row(ApiKeys.DESCRIBE_CONFIGS, 1, 4),
        new Row(ApiKeys.ALTER_CONFIGS, 0, 2),
        new Row(ApiKeys.CREATE_PARTITIONS, 0, 3),
        new Row(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 0, 1),
        new Row(ApiKeys.DESCRIBE_CLUSTER, 0, 2));

    public static void main(String[] arguments) throws Exception {
        for (Row row : ROWS) {
            Path file = Path.of(arguments[0], row.key.name().toLowerCase() + ".txt");
            try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file))) {
                for (int version = row.min; version <= row.max; version++) {
                    for (String variant : List.of("default", "null", "filled")) {
                        line(out, row.key, "request", (short) version, variant);
                        line(out, row.key, "response", (short) version, variant);
                    }
                }
            }
        }
    }

    static void line(PrintWriter out, ApiKeys key, String direction, short version, String variant)
            throws Exception {
        ApiMessageType type = key.messageType;
        boolean request = direction.equals("request");
        ApiMessage body = request ? type.newRequest() : type.newResponse();
        String name = body.getClass().getSimpleName().replaceAll("Data$", "");
        counter = 0;
        if (!variant.equals("default")) {
            fill(body, body.getClass(), schema(name), version, variant.equals("null"));
        }
        ApiMessage header;
        short headerVersion;
        if (request) {
            headerVersion = type.requestHeaderVersion(version);
            header = new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion(version)
                .setCorrelationId(CORRELATION_ID)
                .setClientId(variant.equals("null") ? null : CLIENT_ID);
        } else {
            headerVersion = type.responseHeaderVersion(version);
            header = new ResponseHeaderData().setCorrelationId(CORRELATION_ID);
        }
        out.println(direction + " " + version + " " + variant + " "
            + hex(header, headerVersion) + hex(body, version));
    }

    static String hex(ApiMessage message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static JsonNode schema(String name) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        mapper.configure(JsonParser.Feature.ALLOW_COMMENTS, true);
        try (InputStream in = GoldenFrames.class.getResourceAsStream(
                "/common/message/" + name + ".json")) {
            return mapper.readTree(in);
        }
    }

    static void fill(Object target, Class<?> outer, JsonNode node, short version, boolean nulls)
            throws Exception {
        for (JsonNode field : node.get("fields")) {
            if (!in(field.get("versions"), version)) {
                continue;
            }
            String name = field.get("name").asText();
            Method setter = null;
            for (Method method : target.getClass().getMethods()) {
                if (method.getName().equalsIgnoreCase("set" + name)) {
                    setter = method;
                }
            }
            String type = field.get("type").asText();
            if (nulls && in(field.get("nullableVersions"), version) && !type.equals("records")) {
                setter.invoke(target, new Object[] {null});
            } else {
                Class<?> wanted = setter.getParameterTypes()[0];
                setter.invoke(target, value(name, type, wanted, outer, field, version, nulls));
            }
        }
    }

    @SuppressWarnings("unchecked")
    static Object value(String name, String type, Class<?> wanted, Class<?> outer, JsonNode field,
            short version, boolean nulls) throws Exception {
        int n = ++counter;
        if (type.startsWith("[]")) {
            Collection<Object> values = Collection.class.isAssignableFrom(wanted)
                && wanted != List.class
                ? (Collection<Object>) wanted.getDeclaredConstructor().newInstance()
                : new ArrayList<>();
            for (int count = 0; count < (nulls ? 1 : 2); count++) {
                values.add(value(name, type.substring(2), null, outer, field, version, nulls));
            }
            return values;
        }
        switch (type) {
            case "bool": return true;
            case "int8": return (byte) (n % 3);
            case "int16": return (short) (name.endsWith("ErrorCode") ? 1 + n % 130 : 0x0100 + n);
            case "uint16": return 0x8000 + n;
            case "int32": return 0x01000000 + n;
            case "int64": return 0x0100000000000000L + n;
            case "string": return "s" + n;
            case "uuid": return new Uuid(0x0100000000000000L + n, n);
            case "bytes": return new byte[] {(byte) n, 2};
            case "records":
                byte[] bytes = new byte[10 + n % 7];
                java.util.Arrays.fill(bytes, (byte) n);
                return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
            default:
                Class<?> inner = Class.forName(outer.getName() + "$" + type);
                Object target = inner.getDeclaredConstructor().newInstance();
                JsonNode fields = field.has("fields") ? field : common(outer, type);
                fill(target, outer, fields, version, nulls);
                return target;
        }
    }

    static JsonNode common(Class<?> outer, String type) throws Exception {
        for (JsonNode struct : schema(outer.getSimpleName().replaceAll("Data$", ""))
                .get("commonStructs")) {
            if (struct.get("name").asText().equals(type)) {
                return struct;
            }
        }
        throw new IllegalStateException(type);
    }

    static boolean in(JsonNode range, short version) {
        if (range == null || range.asText().equals("none")) {
            return false;
        }
        String text = range.asText();
        if (text.endsWith("+")) {
            return version >= Short.parseShort(text.substring(0, text.length() - 1));
        }
        String[] ends = text.split("-");
        return version >= Short.parseShort(ends[0])
            && version <= Short.parseShort(ends[ends.length - 1]);
    }
}
