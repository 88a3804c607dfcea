package levelwind.coordinator;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * A group in columns: members, topics, partitions and racks are dense integers in one fixed order.
 *
 * <p>Three compressions keep large groups small: members of one set of topics share a
 * <em>subscription</em>, topics of the same readers a <em>reader set</em>, and partitions with
 * replicas in the same racks a <em>rack set</em>.
 */
final class Group {
    static final int NOBODY = -1;

    /** Cells of the table of rack sets and racks; a group that needs more is planned without. */
    private static final int MAX_RACK_CELLS = 4_000_000;

    /** Rack ids of the carriers, which read nothing and are not among the members. */
    final List<String> carried = new ArrayList<>();
    /** Member ids, ascending. */
    final String[] members;
    /** Group instance id of each member, or null. */
    final String[] instances;
    /** Topics with a reader, ascending. */
    final Uuid[] topics;
    /** The partitions of topic t are topicStart[t] to topicStart[t + 1] - 1. */
    final int[] topicStart;
    /** Topic of each partition. */
    final int[] partitionTopic;
    /** Number of racks; the last one stands for all racks without a replica. */
    final int racks;
    /** Rack of each member, or -1 where it is unknown. */
    final int[] memberRack;
    /** Rack set of each partition. */
    final int[] rackSet;
    /** Whether a rack set has a rack; a set is empty where the racks of replicas are unknown. */
    final boolean[][] rackLocal;
    /** Reader set of each topic. */
    final int[] readerSet;
    /** Readers of each reader set, ascending. */
    final int[][] readers;
    /** Whether all members read the same topics. */
    final boolean equalSubscriptions;
    /** Member that has each partition in the last target and still reads it, or NOBODY. */
    final int[] held;

    private final Map<Uuid, Integer> topicOf = new HashMap<>();
    /** Subscription of each member. */
    private final int[] subscription;
    /** Topics of each subscription. */
    private final List<BitSet> subscribed = new ArrayList<>();

    Group(GroupSpec spec, SubscribedTopicDescriber describer) {
        members = consumers(spec);
        instances = new String[members.length];
        subscription = new int[members.length];
        String[] rackNames = new String[members.length];
        List<Set<Uuid>> subscriptions = new ArrayList<>();
        Map<Set<Uuid>, Integer> subscriptionOf = new HashMap<>();
        // Sets of a thousand ids, made anew by the coordinator for each member, are slow to compare.
        boolean alike = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS;
        for (int m = 0; m < members.length; m++) {
            var stated = spec.memberSubscription(members[m]);
            rackNames[m] = stated.rackId().filter(rack -> !rack.isEmpty()).orElse(null);
            instances[m] = stated.instanceId().orElse(null);
            if (alike && m > 0) {
                continue;
            }
            Set<Uuid> ids = stated.subscribedTopicIds();
            Integer known = subscriptionOf.get(ids);
            if (known == null) {
                known = subscriptions.size();
                subscriptions.add(Set.copyOf(ids));
                subscriptionOf.put(ids, known);
            }
            subscription[m] = known;
        }
        equalSubscriptions = subscriptions.size() <= 1;
        Set<Uuid> read = new HashSet<>();
        subscriptions.forEach(read::addAll);
        topics = read.toArray(Uuid[]::new);
        Arrays.sort(topics);
        topicStart = new int[topics.length + 1];
        for (int t = 0; t < topics.length; t++) {
            topicOf.put(topics[t], t);
            int size = Math.max(describer.numPartitions(topics[t]), 0);
            topicStart[t + 1] = Math.addExact(topicStart[t], size);
        }
        partitionTopic = new int[topicStart[topics.length]];
        for (int t = 0; t < topics.length; t++) {
            Arrays.fill(partitionTopic, topicStart[t], topicStart[t + 1], t);
        }
        for (Set<Uuid> ids : subscriptions) {
            BitSet indices = new BitSet(topics.length);
            ids.forEach(id -> indices.set(topicOf.get(id)));
            subscribed.add(indices);
        }
        readerSet = new int[topics.length];
        readers = readerSets();
        memberRack = new int[members.length];
        rackSet = new int[partitionTopic.length];
        rackLocal = rackSets(rackNames, describer);
        racks = rackLocal[0].length - 1;
        held = lastTarget(spec);
    }

    int partitions() {
        return partitionTopic.length;
    }

    boolean reads(int member, int topic) {
        return subscribed.get(subscription[member]).get(topic);
    }

    boolean readsAnything(int member) {
        return !subscribed.get(subscription[member]).isEmpty();
    }

    /** The index of a partition that somebody reads, or -1 where there is none. */
    int partition(Uuid topic, int number) {
        Integer index = topicOf.get(topic);
        if (index == null || number < 0 || number >= topicStart[index + 1] - topicStart[index]) {
            return -1;
        }
        return topicStart[index] + number;
    }

    /** Whether a partition has a replica in a rack; no partition has one in the unknown rack. */
    boolean isLocal(int partition, int rack) {
        return rackLocal[rackSet[partition]][rack < 0 ? racks : rack];
    }

    boolean racksKnown(int partition) {
        return isKnown(rackLocal[rackSet[partition]]);
    }

    /** Whether both racks are known, and the partition has no replica in the member's. */
    boolean isRemote(int partition, int member) {
        return member != NOBODY && memberRack[member] >= 0
                && !isLocal(partition, memberRack[member]) && racksKnown(partition);
    }

    /** Whether some partition is near one reader, and not near another one of known rack. */
    boolean localityVaries() {
        boolean[] reading = new boolean[racks];
        for (int m = 0; m < members.length; m++) {
            if (memberRack[m] >= 0 && readsAnything(m)) {
                reading[memberRack[m]] = true;
            }
        }
        boolean[] used = new boolean[rackLocal.length];
        for (int set : rackSet) {
            used[set] = true;
        }
        for (int set = 0; set < used.length; set++) {
            boolean local = false;
            boolean remote = false;
            for (int rack = 0; used[set] && rack < racks; rack++) {
                local |= reading[rack] && rackLocal[set][rack];
                remote |= reading[rack] && !rackLocal[set][rack];
            }
            if (local && remote) {
                return true;
            }
        }
        return false;
    }

    /** Number of partitions of each member. */
    int[] counts(int[] owner) {
        int[] count = new int[members.length];
        for (int member : owner) {
            if (member != NOBODY) {
                count[member]++;
            }
        }
        return count;
    }

    /** Members of each rack, ascending. */
    int[][] membersByRack() {
        int[] sizes = new int[racks];
        for (int rack : memberRack) {
            if (rack >= 0) {
                sizes[rack]++;
            }
        }
        int[][] found = new int[racks][];
        Arrays.setAll(found, rack -> new int[sizes[rack]]);
        for (int m = members.length - 1; m >= 0; m--) {
            if (memberRack[m] >= 0) {
                found[memberRack[m]][--sizes[memberRack[m]]] = m;
            }
        }
        return found;
    }

    static boolean isKnown(boolean[] rackSet) {
        for (boolean local : rackSet) {
            if (local) {
                return true;
            }
        }
        return false;
    }

    private String[] consumers(GroupSpec spec) {
        List<String> consumers = new ArrayList<>();
        for (String member : spec.memberIds()) {
            String rackId = spec.memberSubscription(member).rackId().orElse("");
            if (CarriedPlan.isCarried(rackId)) {
                carried.add(rackId);
            } else {
                consumers.add(member);
            }
        }
        return consumers.stream().sorted().toArray(String[]::new);
    }

    private int[][] readerSets() {
        BitSet[] readingSubscriptions = new BitSet[topics.length];
        Arrays.setAll(readingSubscriptions, t -> new BitSet(subscribed.size()));
        for (int s = 0; s < subscribed.size(); s++) {
            int number = s;
            subscribed.get(s).stream().forEach(t -> readingSubscriptions[t].set(number));
        }
        Map<BitSet, Integer> setOf = new HashMap<>();
        List<BitSet> sets = new ArrayList<>();
        for (int t = 0; t < topics.length; t++) {
            Integer known = setOf.putIfAbsent(readingSubscriptions[t], sets.size());
            if (known == null) {
                known = sets.size();
                sets.add(readingSubscriptions[t]);
            }
            readerSet[t] = known;
        }
        int[][] found = new int[sets.size()][];
        for (int set = 0; set < found.length; set++) {
            int[] reading = new int[members.length];
            int count = 0;
            for (int m = 0; m < members.length; m++) {
                if (sets.get(set).get(subscription[m])) {
                    reading[count++] = m;
                }
            }
            found[set] = Arrays.copyOf(reading, count);
        }
        return found;
    }

    private boolean[][] rackSets(String[] rackNames, SubscribedTopicDescriber describer) {
        Map<String, Integer> rackOf = new HashMap<>();
        // Sets of names whose hashes have one sum collide: racks r10 and r21, r11 and r20.
        Map<BitSet, Integer> setOf = new HashMap<>();
        List<BitSet> sets = new ArrayList<>();
        for (int p = 0; p < rackSet.length; p++) {
            int topic = partitionTopic[p];
            Set<String> named = describer.racksForPartition(topics[topic], p - topicStart[topic]);
            BitSet indices = new BitSet();
            for (String rack : named == null ? Set.<String>of() : named) {
                Integer known = rackOf.putIfAbsent(rack, rackOf.size());
                indices.set(known == null ? rackOf.size() - 1 : known);
            }
            Integer known = setOf.putIfAbsent(indices, sets.size());
            if (known == null) {
                known = sets.size();
                sets.add(indices);
            }
            rackSet[p] = known;
        }
        // The order in which racks were met is that of hash tables; ranks are by name.
        int[] rank = new int[rackOf.size()];
        int width = 0;
        for (var rack : new TreeMap<>(rackOf).entrySet()) {
            rank[rack.getValue()] = width;
            rackOf.put(rack.getKey(), width++);
        }
        int elsewhere = width++;
        if ((long) sets.size() * (width + 1) > MAX_RACK_CELLS) {
            Arrays.fill(rackSet, 0);
            Arrays.fill(memberRack, -1);
            return new boolean[1][2];
        }
        for (int m = 0; m < members.length; m++) {
            memberRack[m] =
                    rackNames[m] == null ? -1 : rackOf.getOrDefault(rackNames[m], elsewhere);
        }
        boolean[][] local = new boolean[Math.max(sets.size(), 1)][width + 1];
        for (int set = 0; set < sets.size(); set++) {
            for (int rack = sets.get(set).nextSetBit(0); rack >= 0;
                    rack = sets.get(set).nextSetBit(rack + 1)) {
                local[set][rank[rack]] = true;
            }
        }
        return local;
    }

    private int[] lastTarget(GroupSpec spec) {
        int[] owner = new int[partitions()];
        Arrays.fill(owner, NOBODY);
        for (int m = 0; m < members.length; m++) {
            MemberAssignment last = spec.memberAssignment(members[m]);
            if (last == null) {
                continue;
            }
            for (var share : last.partitions().entrySet()) {
                for (int number : share.getValue()) {
                    int p = partition(share.getKey(), number);
                    if (p >= 0 && owner[p] == NOBODY && reads(m, partitionTopic[p])) {
                        owner[p] = m;
                    }
                }
            }
        }
        return owner;
    }
}
