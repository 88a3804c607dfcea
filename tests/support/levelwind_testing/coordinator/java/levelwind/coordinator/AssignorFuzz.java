package levelwind.coordinator;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * Random groups with foreign, torn and missing parts and plans, asked of each assignor of the jar:
 * number and seed.
 *
 * <p>Nothing is thrown. Each partition of a topic that somebody reads has one owner, who reads it.
 * The same group gets the same answer, and a group that has its answer already keeps it. Where a
 * question to the group throws, the last target stays, and nothing where all questions do.
 */
final class AssignorFuzz implements GroupSpec, SubscribedTopicDescriber {
    private static final List<CautiousAssignor> ASSIGNORS =
            List.of(new RackUniformAssignor(), new PlannedAssignor());
    private static final int TOPICS = 5;

    private final CautiousAssignor assignor;

    private final Map<String, Member> members = new TreeMap<>();
    private final Map<Uuid, Topic> topics = new HashMap<>();
    /** Questions that are answered before one throws; negative where all are. */
    private int answers = -1;
    private boolean allThrowThen;
    private boolean thrown;

    private record Member(Optional<String> rackId, Optional<String> instanceId,
            Set<Uuid> subscribedTopicIds) implements MemberSubscription {}

    private record Topic(int size, List<Set<String>> racks) {}

    private record Share(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment {}

    private final Map<String, MemberAssignment> last = new HashMap<>();

    public static void main(String[] arguments) {
        int groups = Integer.parseInt(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        int faults = 0;
        for (int number = 0; number < groups; number++) {
            Random draw = new Random(seed + number);
            AssignorFuzz group = new AssignorFuzz(draw);
            String wrong = draw.nextInt(4) == 0 ? group.wrongWithFault(draw) : group.wrong();
            if (!wrong.isEmpty()) {
                System.out.println("seed " + (seed + number) + ": " + wrong);
                faults++;
            }
        }
        System.out.println(groups + " groups, " + faults + " faults");
    }

    private AssignorFuzz(Random draw) {
        assignor = ASSIGNORS.get(draw.nextInt(ASSIGNORS.size()));
        for (int t = 0; t < TOPICS; t++) {
            int size = draw.nextInt(10) == 0 ? -draw.nextInt(3) : draw.nextInt(8);
            List<Set<String>> racks = new ArrayList<>();
            for (int p = 0; p < size; p++) {
                racks.add(draw.nextInt(12) == 0 ? null : racks(draw));
            }
            topics.put(AssignorServer.Stated.id(t), new Topic(size, racks));
        }
        boolean equal = draw.nextBoolean();
        Set<Uuid> shared = subscription(draw);
        for (int m = draw.nextInt(6); m > 0; m--) {
            String name = draw.nextInt(30) == 0 ? "" : "m" + draw.nextInt(20);
            members.put(name, new Member(rack(draw),
                    Optional.of("i" + draw.nextInt(9)).filter(i -> draw.nextInt(3) == 0),
                    equal ? shared : subscription(draw)));
            last.put(name, draw.nextInt(20) == 0 ? null : new Share(held(draw)));
        }
        for (String rackId : TornPlans.rackIds(draw)) {
            String name = "c" + draw.nextInt(20);
            members.put(name, new Member(Optional.of(rackId), Optional.empty(),
                    draw.nextInt(3) == 0 ? subscription(draw) : Set.of()));
            last.put(name, draw.nextInt(5) == 0 ? new Share(held(draw)) : null);
        }
    }

    private static Set<String> racks(Random draw) {
        Set<String> racks = new HashSet<>();
        for (int n = draw.nextInt(4); n > 0; n--) {
            racks.add("abc".substring(0, draw.nextInt(3) + 1));
        }
        return racks;
    }

    private static Optional<String> rack(Random draw) {
        return switch (draw.nextInt(8)) {
            case 0 -> Optional.empty();
            case 1 -> Optional.of("");
            case 2 -> Optional.of("x".repeat(draw.nextInt(50) == 0 ? 32_767 : 3));
            default -> Optional.of("abcd".substring(0, draw.nextInt(4) + 1));
        };
    }

    private static Set<Uuid> subscription(Random draw) {
        Set<Uuid> ids = new HashSet<>();
        for (int n = draw.nextInt(TOPICS + 1); n > 0; n--) {
            ids.add(AssignorServer.Stated.id(draw.nextInt(TOPICS + 1)));
        }
        return ids;
    }

    private static Map<Uuid, Set<Integer>> held(Random draw) {
        Map<Uuid, Set<Integer>> held = new HashMap<>();
        for (int n = draw.nextInt(6); n > 0; n--) {
            int number = draw.nextInt(10) == 0 ? draw.nextInt() : draw.nextInt(9);
            Uuid topic = AssignorServer.Stated.id(draw.nextInt(TOPICS + 2));
            held.computeIfAbsent(topic, t -> new HashSet<>()).add(number);
        }
        return held;
    }

    private String wrong() {
        Map<String, Map<Uuid, Set<Integer>>> shares = shares(assignor.assign(this, this));
        if (!shares.keySet().equals(members.keySet())) {
            return "members " + shares.keySet();
        }
        Map<Uuid, Set<Integer>> owned = new HashMap<>();
        for (var share : shares.entrySet()) {
            for (var part : share.getValue().entrySet()) {
                if (!members.get(share.getKey()).subscribedTopicIds().contains(part.getKey())) {
                    return share.getKey() + " does not read " + part.getKey();
                }
                for (int number : part.getValue()) {
                    if (!owned.computeIfAbsent(part.getKey(), t -> new HashSet<>()).add(number)) {
                        return number + " of " + part.getKey() + " has two owners";
                    }
                }
            }
        }
        for (Member member : members.values()) {
            if (CarriedPlan.isCarried(member.rackId().orElse(""))) {
                continue;
            }
            for (Uuid topic : member.subscribedTopicIds()) {
                Set<Integer> numbers = new HashSet<>();
                for (int p = 0; p < numPartitions(topic); p++) {
                    numbers.add(p);
                }
                if (!owned.getOrDefault(topic, Set.of()).equals(numbers)) {
                    return "of " + topic + " owned " + owned.get(topic);
                }
            }
        }
        if (!shares(assignor.assign(this, this)).equals(shares)) {
            return "another answer to the same group";
        }
        shares.forEach((member, share) -> last.put(member, new Share(share)));
        Map<String, Map<Uuid, Set<Integer>>> again = shares(assignor.assign(this, this));
        return again.equals(shares) ? "" : shares + " became " + again;
    }

    private String wrongWithFault(Random draw) {
        answers = draw.nextInt(60);
        allThrowThen = draw.nextInt(4) == 0;
        Map<String, Map<Uuid, Set<Integer>>> shares = shares(assignor.assign(this, this));
        if (!thrown) {
            return "";
        }
        Map<String, Map<Uuid, Set<Integer>>> kept = new TreeMap<>();
        members.forEach((name, member) -> {
            Map<Uuid, Set<Integer>> share = new HashMap<>();
            if (!allThrowThen && last.get(name) != null) {
                share.putAll(last.get(name).partitions());
                share.keySet().retainAll(member.subscribedTopicIds());
            }
            kept.put(name, share);
        });
        boolean same = allThrowThen ? shares.isEmpty() : shares.equals(kept);
        return same ? "" : shares + " after a fault, where the last target was " + kept;
    }

    private static Map<String, Map<Uuid, Set<Integer>>> shares(GroupAssignment answer) {
        Map<String, Map<Uuid, Set<Integer>>> shares = new TreeMap<>();
        answer.members().forEach((member, share) -> shares.put(member, share.partitions()));
        return shares;
    }

    /** A question; the one whose turn it is throws. */
    private void asked() {
        if (answers == 0) {
            answers = allThrowThen ? 0 : -1;
            thrown = true;
            throw new StackOverflowError("asked for");
        }
        answers -= answers > 0 ? 1 : 0;
    }

    @Override
    public Collection<String> memberIds() {
        asked();
        return members.keySet();
    }

    @Override
    public SubscriptionType subscriptionType() {
        asked();
        long different = members.values().stream().map(Member::subscribedTopicIds).distinct().count();
        return different > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
    }

    @Override
    public boolean isPartitionAssigned(Uuid topic, int partition) {
        asked();
        return false;
    }

    @Override
    public boolean isPartitionAssignable(Uuid topic, int partition) {
        asked();
        return true;
    }

    @Override
    public MemberSubscription memberSubscription(String member) {
        asked();
        return members.get(member);
    }

    @Override
    public MemberAssignment memberAssignment(String member) {
        asked();
        return last.get(member);
    }

    @Override
    public int numPartitions(Uuid topic) {
        asked();
        return topics.containsKey(topic) ? topics.get(topic).size() : -1;
    }

    @Override
    public Set<String> racksForPartition(Uuid topic, int partition) {
        asked();
        return topics.get(topic).racks().get(partition);
    }
}
