package levelwind.coordinator;

import static levelwind.coordinator.Group.NOBODY;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Remote partitions made local along chains of transfers, without a change of the loads.
 *
 * <p>Every remote partition is released, which leaves a slot at its owner, or at any member that
 * has as many partitions now. A released partition goes to a local reader with a slot, or to a
 * local reader that passes one of its own partitions on to a reader local to that one, and so on to
 * a slot. Where no such chain is left, it returns to its owner or follows one that is not local.
 * Each phase carries out all shortest chains that do not conflict (Dinic's maximum flow).
 */
final class Relocation {
    private static final int MAX_CHAIN_LENGTH = 24;

    private final TransferGraph graph;
    private final int[] held;
    private final Work work;
    private final int[] owner;
    private final int[] count;
    /** Members that may reach each load again. */
    private final int[] slots;
    /** Partitions of each member by class; those that it held before are passed on last. */
    private final List<TreeMap<Integer, ArrayDeque<Integer>>> stacks = new ArrayList<>();
    private List<Released> released = new ArrayList<>();

    /** Makes remote partitions of the owners local, in place. */
    static void improve(Group group, TransferGraph graph, int[] owner, int[] held, Work work) {
        for (int p = 0; p < owner.length; p++) {
            if (group.isRemote(p, owner[p])) {
                new Relocation(group, graph, owner, held, work).run(owner);
                return;
            }
        }
    }

    private record Released(int partition, int owner) {}

    private Relocation(Group group, TransferGraph graph, int[] owner, int[] held, Work work) {
        this.graph = graph;
        this.held = held;
        this.work = work;
        this.owner = owner.clone();
        int[] loads = group.counts(owner);
        slots = new int[Arrays.stream(loads).max().orElse(0) + 2];
        for (int p = 0; p < owner.length; p++) {
            if (group.isRemote(p, owner[p])) {
                released.add(new Released(p, owner[p]));
                this.owner[p] = NOBODY;
            }
        }
        count = group.counts(this.owner);
        for (int m = 0; m < count.length; m++) {
            stacks.add(new TreeMap<>());
            for (int load = count[m] + 1; load <= loads[m]; load++) {
                slots[load]++;
            }
        }
        for (int p = 0; p < owner.length; p++) {
            if (this.owner[p] != NOBODY) {
                put(p, this.owner[p]);
            }
        }
    }

    private void run(int[] result) {
        while (new Phase(true, true).run() || new Phase(true, false).run()) {
            continue;
        }
        List<Released> remaining = new ArrayList<>();
        for (Released one : released) {
            if (takeSlot(one.owner)) {
                owner[one.partition] = one.owner;
                put(one.partition, one.owner);
            } else {
                remaining.add(one);
            }
        }
        released = remaining;
        while (new Phase(false, false).run()) {
            continue;
        }
        if (released.isEmpty()) {
            System.arraycopy(owner, 0, result, 0, owner.length);
        }
    }

    private void put(int partition, int member) {
        var stack = stacks.get(member)
                .computeIfAbsent(graph.classOf[partition], c -> new ArrayDeque<>());
        if (held[partition] == member) {
            stack.addFirst(partition);
        } else {
            stack.addLast(partition);
        }
    }

    private boolean takeSlot(int member) {
        int load = count[member] + 1;
        if (load >= slots.length || slots[load] == 0) {
            return false;
        }
        slots[load]--;
        count[member] = load;
        return true;
    }

    /**
     * The shortest chains. The level of a member is the number of transfers from it to the nearest
     * slot; that of a class is the lowest of the members that may take it.
     */
    private final class Phase {
        private final boolean localOnly;
        /** No chain passes on a partition that its owner held before. */
        private final boolean claimsStay;
        private final int[] memberLevel = new int[count.length];
        private final int[] readerLevel = new int[graph.readers.length];
        private final int[] classLevel = new int[graph.classes];
        /** By reader class: its members of its level that are still to be tried. */
        private final Map<Integer, ArrayDeque<Integer>> takers = new HashMap<>();

        Phase(boolean localOnly, boolean claimsStay) {
            this.localOnly = localOnly;
            this.claimsStay = claimsStay;
        }

        /** Carry out the shortest chains; return whether there was one. */
        boolean run() {
            if (released.isEmpty() || !work.spend(graph.size())) {
                return false;
            }
            setLevels();
            List<Released> stay = new ArrayList<>();
            for (Released one : released) {
                if (!assign(one.partition)) {
                    stay.add(one);
                }
            }
            boolean found = stay.size() < released.size();
            released = stay;
            return found;
        }

        private void setLevels() {
            Arrays.fill(readerLevel, NOBODY);
            Arrays.fill(classLevel, NOBODY);
            for (int m = 0; m < count.length; m++) {
                memberLevel[m] = slots[count[m] + 1] > 0 ? 0 : NOBODY;
            }
            for (int level = 0; level < MAX_CHAIN_LENGTH; level++) {
                work.spend(graph.size());
                for (int readers = 0; readers < readerLevel.length; readers++) {
                    for (int m : graph.readers[readers]) {
                        if (memberLevel[m] == level && readerLevel[readers] == NOBODY) {
                            readerLevel[readers] = level;
                        }
                    }
                }
                if (!reachClasses(level) || releasedAreReached()) {
                    return;
                }
                for (int p = 0; p < owner.length; p++) {
                    if (owner[p] != NOBODY && classLevel[graph.classOf[p]] == level
                            && memberLevel[owner[p]] == NOBODY && mayPassOn(p)) {
                        memberLevel[owner[p]] = level + 1;
                    }
                }
            }
        }

        private boolean reachClasses(int level) {
            boolean some = false;
            for (int c = 0; c < graph.classes; c++) {
                for (int rack = 0; rack < graph.width && classLevel[c] == NOBODY; rack++) {
                    if (isAllowed(c, rack) && readerLevel[readersOf(c, rack)] == level) {
                        classLevel[c] = level;
                        some = true;
                    }
                }
            }
            return some;
        }

        private boolean releasedAreReached() {
            for (Released one : released) {
                if (classLevel[graph.classOf[one.partition]] == NOBODY) {
                    return false;
                }
            }
            return true;
        }

        private boolean isAllowed(int partitionClass, int rack) {
            return !localOnly || !graph.remote[partitionClass * graph.width + rack];
        }

        private int readersOf(int partitionClass, int rack) {
            return graph.readerSetOfClass[partitionClass] * graph.width + rack;
        }

        private boolean mayPassOn(int partition) {
            return !claimsStay || held[partition] != owner[partition];
        }

        /** Give a partition to a reader with a slot or a chain to one; return whether one is. */
        private boolean assign(int partition) {
            int partitionClass = graph.classOf[partition];
            int level = classLevel[partitionClass];
            for (int rack = 0; rack < graph.width && level != NOBODY; rack++) {
                int readers = readersOf(partitionClass, rack);
                if (!isAllowed(partitionClass, rack) || readerLevel[readers] != level) {
                    continue;
                }
                var untried = takers.computeIfAbsent(readers, this::membersOfLevel);
                while (!untried.isEmpty()) {
                    int taker = untried.peekLast();
                    if (freeSlot(taker, level)) {
                        owner[partition] = taker;
                        put(partition, taker);
                        return true;
                    }
                    untried.removeLast();
                }
            }
            classLevel[partitionClass] = NOBODY;
            return false;
        }

        private ArrayDeque<Integer> membersOfLevel(int readers) {
            ArrayDeque<Integer> found = new ArrayDeque<>();
            for (int m : graph.readers[readers]) {
                if (memberLevel[m] == readerLevel[readers]) {
                    found.addLast(m);
                }
            }
            return found;
        }

        /** Take the member's slot, or make room by passing a partition of its own down a level. */
        private boolean freeSlot(int member, int level) {
            if (level == 0) {
                return takeSlot(member);
            }
            for (var entry : stacks.get(member).entrySet()) {
                var stack = entry.getValue();
                if (!stack.isEmpty() && classLevel[entry.getKey()] == level - 1
                        && mayPassOn(stack.peekLast()) && assign(stack.peekLast())) {
                    stack.removeLast();
                    return true;
                }
            }
            return false;
        }
    }
}
