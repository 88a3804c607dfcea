package levelwind.coordinator;

import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.stream.IntStream;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;

/**
 * `levelwind`: the plan of levelwind's daemon where a carrier brings one, else `rack-uniform`.
 *
 * <p>A plan holds for the members that it names and that read the topic still. What it leaves open
 * goes to those with the fewest partitions; a member that came after it gets its share at once, by
 * `rack-uniform` from where the plan has put everything, until the next plan.
 *
 * <p>Without a plan, a group in which every partition and every reader is provided for keeps its
 * numbers of partitions, so that little moves when the last carrier is gone.
 */
public final class PlannedAssignor extends CautiousAssignor {
    @Override
    public String name() {
        return "levelwind";
    }

    @Override
    int[] owners(Group group, GroupSpec spec) {
        CarriedPlan plan = CarriedPlan.newest(group.carried);
        BitSet named = new BitSet();
        int[] owner = plan == null ? group.held : placed(group, plan, named);
        if (!named.isEmpty()) {
            boolean newcomers = IntStream.range(0, group.members.length)
                    .anyMatch(m -> !named.get(m) && group.readsAnything(m));
            return newcomers ? Uniform.owners(group, owner) : completed(group, owner);
        }
        return isProvidedFor(group) ? Uniform.relocated(group) : Uniform.owners(group, group.held);
    }

    /** Owner of each partition by the plan, or NOBODY; notes the members that the plan names. */
    private static int[] placed(Group group, CarriedPlan plan, BitSet named) {
        Map<String, Integer> memberOf = new HashMap<>();
        for (int m = 0; m < group.members.length; m++) {
            memberOf.put(group.instances[m] == null ? group.members[m] : group.instances[m], m);
        }
        int[] member = plan.members().stream()
                .mapToInt(name -> memberOf.getOrDefault(name, Group.NOBODY)).toArray();
        IntStream.of(member).filter(m -> m != Group.NOBODY).forEach(named::set);
        int[] owner = new int[group.partitions()];
        Arrays.fill(owner, Group.NOBODY);
        plan.owners().forEach((topic, owners) -> {
            for (int number = 0; number < owners.length; number++) {
                int p = group.partition(topic, number);
                int m = owners[number] < 0 ? Group.NOBODY : member[owners[number]];
                if (p >= 0 && m != Group.NOBODY && group.reads(m, group.partitionTopic[p])) {
                    owner[p] = m;
                }
            }
        });
        return owner;
    }

    /** Give each partition without an owner to its last one, or to its reader with the fewest. */
    private static int[] completed(Group group, int[] owner) {
        for (int p = 0; p < owner.length; p++) {
            owner[p] = owner[p] == Group.NOBODY ? group.held[p] : owner[p];
        }
        int[] count = group.counts(owner);
        Map<Integer, PriorityQueue<int[]>> fewest = new HashMap<>();
        for (int p = 0; p < owner.length; p++) {
            if (owner[p] != Group.NOBODY) {
                continue;
            }
            int set = group.readerSet[group.partitionTopic[p]];
            PriorityQueue<int[]> queue = fewest.computeIfAbsent(set, s -> {
                // Pairs of count and member; a count may be out of date, and is put right then.
                PriorityQueue<int[]> made = new PriorityQueue<>(
                        Comparator.<int[]>comparingInt(pair -> pair[0]).thenComparing(pair -> pair[1]));
                IntStream.of(group.readers[s]).forEach(m -> made.add(new int[] {count[m], m}));
                return made;
            });
            while (queue.peek()[0] != count[queue.peek()[1]]) {
                int m = queue.poll()[1];
                queue.add(new int[] {count[m], m});
            }
            owner[p] = queue.peek()[1];
            count[owner[p]]++;
        }
        return owner;
    }

    /** Whether every partition has its last owner, and every member that reads has a partition. */
    private static boolean isProvidedFor(Group group) {
        if (IntStream.of(group.held).anyMatch(m -> m == Group.NOBODY)) {
            return false;
        }
        int[] count = group.counts(group.held);
        return IntStream.range(0, count.length)
                .noneMatch(m -> count[m] == 0 && group.readsAnything(m));
    }
}
