package levelwind.coordinator;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * An assignor that always answers. One that throws ends every consumer of its group (seen with
 * librdkafka and the Java client), so that whatever goes wrong here leaves the last target as it
 * is.
 *
 * <p>An assignor is made several times, runs in the coordinator's own thread, and is not closed: it
 * has no state, no thread and no connection.
 */
abstract class CautiousAssignor implements ConsumerGroupPartitionAssignor {
    private static final long MINUTE_NANOS = 60_000_000_000L;
    private static final AtomicLong nextReport = new AtomicLong(System.nanoTime());

    /** The owner of each partition. */
    abstract int[] owners(Group group, GroupSpec spec);

    @Override
    public final GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer) {
        try {
            Group group = new Group(spec, describer);
            return answer(group, owners(group, spec), spec);
        } catch (Throwable error) { // an Error, too, would end the consumers
            report(error);
            return lastTarget(spec);
        }
    }

    private static GroupAssignment answer(Group group, int[] owner, GroupSpec spec) {
        Map<String, MemberAssignment> shares = new HashMap<>();
        for (String member : spec.memberIds()) {
            shares.put(member, new Share(new HashMap<>()));
        }
        for (int p = 0; p < owner.length; p++) {
            if (owner[p] != Group.NOBODY) {
                int topic = group.partitionTopic[p];
                shares.get(group.members[owner[p]]).partitions()
                        .computeIfAbsent(group.topics[topic], id -> new HashSet<>())
                        .add(p - group.topicStart[topic]);
            }
        }
        // A share that stays is the last target's own object, so that the coordinator keeps one.
        shares.replaceAll((member, share) -> {
            MemberAssignment last = spec.memberAssignment(member);
            return last != null && share.partitions().equals(last.partitions()) ? last : share;
        });
        return new GroupAssignment(shares);
    }

    private static GroupAssignment lastTarget(GroupSpec spec) {
        Map<String, MemberAssignment> shares = new HashMap<>();
        try {
            for (String member : spec.memberIds()) {
                shares.put(member, new Share(lastShare(spec, member)));
            }
        } catch (Throwable error) { // members that are left out get nothing
            report(error);
        }
        return new GroupAssignment(shares);
    }

    /** What a member had of the topics that it reads still. */
    private static Map<Uuid, Set<Integer>> lastShare(GroupSpec spec, String member) {
        Map<Uuid, Set<Integer>> share = new HashMap<>();
        try {
            share.putAll(spec.memberAssignment(member).partitions());
            share.keySet().retainAll(spec.memberSubscription(member).subscribedTopicIds());
        } catch (Throwable error) { // the other members keep theirs
            report(error);
        }
        return share;
    }

    /** Say what went wrong, once a minute at most, where the broker's standard error goes. */
    private static void report(Throwable error) {
        try {
            long now = System.nanoTime();
            long due = nextReport.get();
            if (now - due >= 0 && nextReport.compareAndSet(due, now + MINUTE_NANOS)) {
                System.getLogger("levelwind.coordinator").log(System.Logger.Level.ERROR,
                        "no plan for a group, whose last target stays: report this", error);
            }
        } catch (Throwable ignored) { // a log is worth no consumer
            return;
        }
    }

    private record Share(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment {}
}
