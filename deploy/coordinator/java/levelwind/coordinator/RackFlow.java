package levelwind.coordinator;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The most partitions that can have a reader in a replica's rack: a small transport problem.
 *
 * <p>Partitions with replicas in the same racks are alike, and so are members of one rack: the
 * problem has a few classes and racks, whatever the group's size, and augmenting paths solve it.
 */
final class RackFlow {
    private final Work work;
    private final int[] free;
    private final int[] classOf;
    /** Racks that each class may go to, ascending. */
    private final int[][] racks;
    /** Partitions of each class that are still to be placed. */
    private final int[] supply;
    /** Partitions that each rack takes without the pool. */
    private final int[] base;
    /** Partitions that each rack takes beyond its base, one from the pool for each. */
    private final int[] extra;
    private final int[][] flow;
    private int pool;

    RackFlow(Group group, int[] free, boolean[] useful, int[] base, int[] extra, int pool,
            Work work) {
        this.work = work;
        this.free = free;
        this.base = base;
        this.extra = extra;
        Map<BitSet, Integer> classes = new HashMap<>();
        int[] classOfSet = new int[group.rackLocal.length];
        List<int[]> found = new ArrayList<>();
        for (int set = 0; set < classOfSet.length; set++) {
            BitSet local = new BitSet();
            for (int rack = 0; rack < group.racks; rack++) {
                local.set(rack, useful[rack] && group.rackLocal[set][rack]);
            }
            Integer known = classes.putIfAbsent(local, found.size());
            if (known == null) {
                known = found.size();
                found.add(local.stream().toArray());
            }
            classOfSet[set] = known;
        }
        racks = found.toArray(int[][]::new);
        classOf = new int[free.length];
        supply = new int[racks.length];
        for (int i = 0; i < free.length; i++) {
            classOf[i] = classOfSet[group.rackSet[free[i]]];
            supply[classOf[i]]++;
        }
        flow = new int[racks.length][base.length];
        fillRacks();
        this.pool = pool;
        fillRacks();
    }

    /** The partitions that go to each rack, in their order. */
    List<List<Integer>> partitionsByRack() {
        List<List<Integer>> found = new ArrayList<>();
        for (int rack = 0; rack < base.length; rack++) {
            found.add(new ArrayList<>());
        }
        int[] next = new int[racks.length];
        for (int i = 0; i < classOf.length; i++) {
            int[] sent = flow[classOf[i]];
            int rack = next[classOf[i]];
            while (rack < sent.length && sent[rack] == 0) {
                rack++;
            }
            next[classOf[i]] = rack;
            if (rack < sent.length) {
                sent[rack]--;
                found.get(rack).add(free[i]);
            }
        }
        return found;
    }

    private void fillRacks() {
        Integer[] order = new Integer[racks.length];
        Arrays.setAll(order, k -> k);
        Arrays.sort(order, Comparator.comparing(k -> racks[k].length));
        for (int k : order) {
            for (int rack : racks[k]) {
                push(new int[] {k}, new int[] {rack}, supply[k]);
            }
        }
        for (int k = 0; k < racks.length; k++) {
            while (supply[k] > 0 && work.spend(racks.length) && augment(k)) {
                continue;
            }
        }
    }

    private int room(int rack) {
        return base[rack] + Math.min(extra[rack], pool);
    }

    /** Push flow along steps; each class but the first leaves the rack of the step before. */
    private void push(int[] classes, int[] along, int most) {
        int last = along[along.length - 1];
        int amount = Math.min(most, room(last));
        if (amount <= 0) {
            return;
        }
        int fromBase = Math.min(base[last], amount);
        base[last] -= fromBase;
        extra[last] -= amount - fromBase;
        pool -= amount - fromBase;
        supply[classes[0]] -= amount;
        for (int step = 0; step < classes.length; step++) {
            if (step > 0) {
                flow[classes[step]][along[step - 1]] -= amount;
            }
            flow[classes[step]][along[step]] += amount;
        }
    }

    /** Push along the shortest path from a class to a rack with room; return whether one is. */
    private boolean augment(int source) {
        int[] byClass = new int[base.length];
        int[] from = new int[base.length];
        Arrays.fill(byClass, -1);
        ArrayDeque<Integer> queue = new ArrayDeque<>();
        for (int rack : racks[source]) {
            byClass[rack] = source;
            from[rack] = -1;
            queue.add(rack);
        }
        while (!queue.isEmpty()) {
            int rack = queue.remove();
            if (room(rack) > 0) {
                pushAlong(byClass, from, rack, source);
                return true;
            }
            work.spend(racks.length);
            for (int k = 0; k < racks.length; k++) {
                if (flow[k][rack] > 0) {
                    for (int onward : racks[k]) {
                        if (byClass[onward] < 0) {
                            byClass[onward] = k;
                            from[onward] = rack;
                            queue.add(onward);
                        }
                    }
                }
            }
        }
        return false;
    }

    private void pushAlong(int[] byClass, int[] from, int end, int source) {
        int length = 0;
        for (int rack = end; rack >= 0; rack = from[rack]) {
            length++;
        }
        int[] classes = new int[length];
        int[] along = new int[length];
        int most = supply[source];
        for (int rack = end, step = length - 1; step >= 0; rack = from[rack], step--) {
            classes[step] = byClass[rack];
            along[step] = rack;
            most = from[rack] < 0 ? most : Math.min(most, flow[byClass[rack]][from[rack]]);
        }
        push(classes, along, most);
    }
}
