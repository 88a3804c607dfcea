package levelwind.coordinator;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Answers groups, one JSON object a line, by an assignor and with the coordinator's own spec. */
final class AssignorServer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private AssignorServer() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, ConsumerGroupPartitionAssignor> assignors = new HashMap<>();
        for (String name : arguments) {
            var made = Class.forName(name).getDeclaredConstructor().newInstance();
            var assignor = (ConsumerGroupPartitionAssignor) made;
            assignors.put(assignor.name(), assignor);
        }
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            Stated stated = new Stated(asked);
            long begin = THREADS.getCurrentThreadCpuTime();
            var answer =
                    assignors.get(asked.get("assignor").asText()).assign(stated.spec, stated);
            ObjectNode answered = JSON.createObjectNode();
            answered.put("cpu_nanos", THREADS.getCurrentThreadCpuTime() - begin);
            ObjectNode members = answered.putObject("members");
            var reused = answered.putArray("reused");
            answer.members().forEach((member, share) -> {
                if (share.partitions() == stated.spec.memberAssignment(member).partitions()) {
                    reused.add(member);
                }
                ObjectNode topics = members.putObject(member);
                share.partitions().forEach((id, numbers) -> {
                    var listed = topics.putArray(Long.toString(id.getLeastSignificantBits()));
                    new TreeSet<>(numbers).forEach(listed::add);
                });
            });
            System.out.println(answered);
        }
    }

    /** A group as its coordinator states it; the id of a topic is its number. */
    static final class Stated implements SubscribedTopicDescriber {
        final GroupSpec spec;
        private final Map<Uuid, List<Set<String>>> topics = new HashMap<>();
        private final boolean broken;

        Stated(JsonNode asked) {
            broken = asked.path("broken").asBoolean();
            long number = 0;
            for (JsonNode topic : asked.get("topics")) {
                List<Set<String>> racks = new ArrayList<>();
                for (JsonNode partition : topic) {
                    Set<String> racksOf = new HashSet<>();
                    partition.forEach(rack -> racksOf.add(rack.asText()));
                    racks.add(racksOf);
                }
                topics.put(id(number++), racks);
            }
            Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
            Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
            Set<Set<Uuid>> subscriptions = new HashSet<>();
            for (JsonNode member : asked.get("members")) {
                String name = member.get("id").asText();
                Set<Uuid> subscribed = new HashSet<>();
                member.get("topics").forEach(topic -> subscribed.add(id(topic.asLong())));
                subscriptions.add(subscribed);
                Map<Uuid, Set<Integer>> held = new HashMap<>();
                for (JsonNode pair : member.get("held")) {
                    Uuid topic = id(pair.get(0).asLong());
                    int partition = pair.get(1).asInt();
                    held.computeIfAbsent(topic, t -> new HashSet<>()).add(partition);
                    owners.computeIfAbsent(topic, t -> new HashMap<>()).put(partition, name);
                }
                members.put(name, new MemberSubscriptionAndAssignmentImpl(
                        text(member, "rack"), text(member, "instance"), subscribed,
                        new Assignment(held)));
            }
            spec = new GroupSpecImpl(members, subscriptions.size() > 1
                    ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS, owners);
        }

        static Uuid id(long number) {
            return new Uuid(1, number);
        }

        private static Optional<String> text(JsonNode node, String field) {
            return Optional.ofNullable(node.get(field)).filter(JsonNode::isTextual)
                    .map(JsonNode::asText);
        }

        @Override
        public int numPartitions(Uuid topic) {
            if (broken) {
                throw new StackOverflowError("asked for");
            }
            return topics.containsKey(topic) ? topics.get(topic).size() : -1;
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return topics.get(topic).get(partition);
        }
    }
}
