package levelwind.coordinator;

import static levelwind.coordinator.Group.NOBODY;

import java.util.Arrays;

/**
 * Cycles of transfers that make a plan as local as its loads allow, with as few moves as that
 * takes: a member passes a partition to a second, which passes another to a third, and so on back
 * to the first, or to a member with one fewer than the first.
 *
 * <p>Among plans of equal loads a plan is optimal exactly if no cycle improves it. Source: cycle
 * cancelling in residual graphs (Klein 1967) with Bellman and Ford's relaxation. Nodes are the
 * members, then the partition classes, then the reader classes, then the loads.
 */
final class TransferCycles {
    private static final int NONE = -1;
    private static final int RELAXATIONS_PER_SEARCH = 3;

    private final Group group;
    private final TransferGraph graph;
    private final int[] held;
    private final boolean[] movable;
    private final Work work;
    /** Cost of a partition class in a rack: one remote partition outweighs all moves. */
    private final long[] cost;
    private final int firstClass;
    private final int firstReaderClass;
    private final int firstLoad;

    private long[] distance;
    private int[] parent;
    private int[] transferred;
    private boolean changed;

    /** Movable partitions alone are passed on, to members of known racks; null where all are. */
    TransferCycles(Group group, TransferGraph graph, int[] held, boolean[] movable, Work work) {
        this.group = group;
        this.graph = graph;
        this.held = held;
        this.movable = movable;
        this.work = work;
        firstClass = group.members.length;
        firstReaderClass = firstClass + graph.classes;
        firstLoad = firstReaderClass + graph.readers.length;
        cost = new long[graph.remote.length];
        for (int c = 0; c < graph.classes; c++) {
            boolean known = false;
            for (int cell = c * graph.width; cell < (c + 1) * graph.width; cell++) {
                cost[cell] = graph.remote[cell] ? 4L * (firstClass + 1) : 0;
                known |= graph.remote[cell];
            }
            if (movable != null && known) {
                cost[(c + 1) * graph.width - 1] = 4L * (firstClass + 1);
            }
        }
    }

    /** Carry out improving cycles, in place. */
    void cancel(int[] owner) {
        while (canImprove(owner) && search(owner)) {
            continue;
        }
    }

    private boolean canImprove(int[] owner) {
        for (int p = 0; p < owner.length; p++) {
            if (group.isRemote(p, owner[p]) || held[p] != NOBODY && held[p] != owner[p]) {
                return true;
            }
        }
        return false;
    }

    /** Carry out some cycles; return whether there were any. */
    private boolean search(int[] owner) {
        int[] count = group.counts(owner);
        int[] passed = passed(owner, count);
        int[] displaced = displaced(owner);
        int nodes = firstLoad + Arrays.stream(count).max().orElse(0) + 1;
        distance = new long[nodes];
        parent = new int[nodes];
        transferred = new int[nodes];
        Arrays.fill(parent, NONE);
        Arrays.fill(transferred, NONE);
        long steps = passed.length + displaced.length + 2L * count.length + graph.size();
        for (int relaxation = 1; work.spend(steps); relaxation++) {
            changed = false;
            relax(owner, passed, displaced, count);
            if (!changed) {
                return false;
            }
            if (relaxation % RELAXATIONS_PER_SEARCH == 0 && carryOutCycles(owner)) {
                return true;
            }
        }
        return false;
    }

    private boolean isMovable(int partition) {
        return movable == null || movable[partition];
    }

    /** A partition of each giver and class, better one that its giver did not hold before. */
    private int[] passed(int[] owner, int[] count) {
        int[] end = new int[count.length];
        int[] byOwner = new int[owner.length];
        for (int m = 1; m < count.length; m++) {
            end[m] = end[m - 1] + count[m - 1];
        }
        for (int p = 0; p < owner.length; p++) {
            if (owner[p] != NOBODY) {
                byOwner[end[owner[p]]++] = p;
            }
        }
        int[] found = new int[owner.length];
        int number = 0;
        // By class: where its partition stands, valid if that is one of the present giver.
        int[] at = new int[graph.classes];
        int owned = count.length == 0 ? 0 : end[count.length - 1];
        for (int i = 0, first = 0; i < owned; i++) {
            int p = byOwner[i];
            if (i > 0 && owner[p] != owner[byOwner[i - 1]]) {
                first = number;
            }
            if (!isMovable(p)) {
                continue;
            }
            int known = at[graph.classOf[p]];
            if (known < first || known >= number
                    || graph.classOf[found[known]] != graph.classOf[p]) {
                at[graph.classOf[p]] = number;
                found[number++] = p;
            } else if (held[found[known]] == owner[p] && held[p] != owner[p]) {
                found[known] = p;
            }
        }
        return Arrays.copyOf(found, number);
    }

    private int[] displaced(int[] owner) {
        int[] found = new int[owner.length];
        int number = 0;
        for (int p = 0; p < owner.length; p++) {
            if (held[p] != NOBODY && held[p] != owner[p] && isMovable(p)) {
                found[number++] = p;
            }
        }
        return Arrays.copyOf(found, number);
    }

    private long costAt(int partition, int member) {
        return cost[graph.classOf[partition] * graph.width + TransferGraph.rack(group, member)];
    }

    private void relax(int[] owner, int[] passed, int[] displaced, int[] count) {
        for (int p : passed) {
            long step = (held[p] == owner[p] ? 1 : 0) - costAt(p, owner[p]);
            shorten(owner[p], firstClass + graph.classOf[p], step, p);
        }
        for (int c = 0; c < graph.classes; c++) {
            int first = firstReaderClass + graph.readerSetOfClass[c] * graph.width;
            for (int rack = 0; rack < graph.width; rack++) {
                shorten(firstClass + c, first + rack, cost[c * graph.width + rack], NONE);
            }
        }
        for (int readers = 0; readers < graph.readers.length; readers++) {
            for (int m : graph.readers[readers]) {
                shorten(firstReaderClass + readers, m, 0, NONE);
            }
        }
        for (int p : displaced) {
            shorten(owner[p], held[p], costAt(p, held[p]) - costAt(p, owner[p]) - 1, p);
        }
        for (int m = 0; m < count.length; m++) {
            shorten(m, firstLoad + count[m], 0, NONE);
        }
        for (int m = 0; m < count.length; m++) {
            if (count[m] > 0) {
                shorten(firstLoad + count[m] - 1, m, 0, NONE);
            }
        }
    }

    private void shorten(int tail, int head, long step, int partition) {
        if (distance[tail] + step < distance[head]) {
            distance[head] = distance[tail] + step;
            parent[head] = tail;
            transferred[head] = partition;
            changed = true;
        }
    }

    /** Carry out the cycles of the graph of parents; return whether there was one. */
    private boolean carryOutCycles(int[] owner) {
        int[] walk = new int[parent.length];
        boolean found = false;
        for (int start = 0, number = 1; start < parent.length; start++, number++) {
            int node = start;
            while (node != NONE && walk[node] == 0) {
                walk[node] = number;
                node = parent[node];
            }
            if (node != NONE && walk[node] == number) {
                carryOut(node, owner);
                found = true;
            }
        }
        return found;
    }

    /** Go along a cycle against its arcs, from a member: the taker of a partition comes first. */
    private void carryOut(int onCycle, int[] owner) {
        int start = onCycle;
        while (start >= firstClass) {
            start = parent[start];
        }
        int node = start;
        int taker = start;
        do {
            taker = node < firstClass ? node : taker;
            if (transferred[node] != NONE) {
                owner[transferred[node]] = taker;
            }
            node = parent[node];
        } while (node != start);
    }
}
