package levelwind.drain;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Kafka's own consumer, of which a poll costs a caller in another process one call. */
public final class BatchConsumer implements ConsumerRebalanceListener {
    private static final int RECORD_BYTES = 2 * Integer.BYTES + 2 * Long.BYTES;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final List<String> topics;
    private final StringBuilder changes = new StringBuilder();

    public BatchConsumer(Properties settings, List<String> topics) {
        this.consumer = new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        this.topics = List.copyOf(topics);
        consumer.subscribe(this.topics, this);
    }

    /** Of each record the number of its topic, its partition, its offset and its time stamp. */
    public byte[] poll(long milliseconds) {
        ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(milliseconds));
        ByteBuffer packed = ByteBuffer.allocate(polled.count() * RECORD_BYTES);
        for (ConsumerRecord<byte[], byte[]> record : polled) {
            packed.putInt(topics.indexOf(record.topic()))
                    .putInt(record.partition())
                    .putLong(record.offset())
                    .putLong(record.timestamp());
        }
        return packed.array();
    }

    /** What the last poll gained and lost: a line each of a sign, the topic's number, a partition. */
    public String changes() {
        String since = changes.toString();
        changes.setLength(0);
        return since;
    }

    public void close() {
        consumer.close();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> gained) {
        note('+', gained);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> lost) {
        note('-', lost);
    }

    private void note(char sign, Collection<TopicPartition> partitions) {
        for (TopicPartition each : partitions) {
            changes.append(sign).append(' ').append(topics.indexOf(each.topic())).append(' ')
                    .append(each.partition()).append('\n');
        }
    }
}
