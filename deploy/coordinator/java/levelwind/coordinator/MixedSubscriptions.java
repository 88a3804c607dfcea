package levelwind.coordinator;

import static levelwind.coordinator.Group.NOBODY;

import java.util.Comparator;
import java.util.stream.IntStream;

/**
 * The uniform plan where members read different topics.
 *
 * <p>Claims stay, and unowned partitions go to their topic's least loaded readers. Chains of
 * transfers then level the loads until none would narrow a gap of two. Cycles of transfers make the
 * plan optimal among those of its loads.
 */
final class MixedSubscriptions {
    private final Group group;
    private final int[] held;
    private final Work work;
    private final int[] owner;
    private final int[] count;

    MixedSubscriptions(Group group, int[] held, Work work) {
        this.group = group;
        this.held = held;
        this.work = work;
        owner = held.clone();
        count = group.counts(owner);
    }

    int[] owners() {
        fillLeastLoaded(group.localityVaries());
        LoadLevelling.run(group, held, owner, count, new Work(Uniform.STEPS));
        Uniform.transfer(group, owner, held, work);
        return owner;
    }

    /** Topics go by fewest readers, then most partitions, then by id. */
    private void fillLeastLoaded(boolean useRacks) {
        int[] order = IntStream.range(0, group.topics.length).boxed()
                .sorted(Comparator.<Integer>comparingInt(t -> readers(t).length)
                        .thenComparingInt(t -> group.topicStart[t] - group.topicStart[t + 1]))
                .mapToInt(t -> t).toArray();
        for (int t : order) {
            int[] free = IntStream.range(group.topicStart[t], group.topicStart[t + 1])
                    .filter(p -> owner[p] == NOBODY).toArray();
            if (free.length > 0) {
                deal(free, readers(t), waterFill(readers(t), free.length), useRacks);
            }
        }
    }

    private int[] readers(int topic) {
        return group.readers[group.readerSet[topic]];
    }

    /** Units that each reader gains where each one goes to the first of the least loaded. */
    private int[] waterFill(int[] readers, int amount) {
        int[] levels = IntStream.of(readers).map(m -> count[m]).sorted().toArray();
        int wet = 0;
        long content = 0;
        while (wet < levels.length && (long) levels[wet] * wet - content <= amount) {
            content += levels[wet++];
        }
        long level = (amount + content) / wet;
        long rest = (amount + content) % wet;
        int[] gained = new int[readers.length];
        for (int i = 0; i < readers.length; i++) {
            gained[i] = (int) Math.max(level - count[readers[i]], 0);
            if (rest > 0 && count[readers[i]] <= level) {
                gained[i]++;
                rest--;
            }
        }
        return gained;
    }

    /** Give each reader what it gains, partitions with a replica in its rack first. */
    private void deal(int[] free, int[] readers, int[] gained, boolean useRacks) {
        // By rack: the next of the partitions to look at.
        int[] next = new int[group.racks];
        for (int i = 0; i < readers.length && useRacks; i++) {
            int rack = group.memberRack[readers[i]];
            while (rack >= 0 && gained[i] > 0 && next[rack] < free.length) {
                int p = free[next[rack]++];
                if (owner[p] == NOBODY && group.isLocal(p, rack)) {
                    give(p, readers[i]);
                    gained[i]--;
                }
            }
        }
        int reader = 0;
        for (int p : free) {
            while (reader < readers.length && gained[reader] == 0) {
                reader++;
            }
            if (owner[p] == NOBODY) {
                give(p, readers[reader]);
                gained[reader]--;
            }
        }
    }

    private void give(int partition, int member) {
        owner[partition] = member;
        count[member]++;
    }
}
