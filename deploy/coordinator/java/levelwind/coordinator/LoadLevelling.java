package levelwind.coordinator;

import static levelwind.coordinator.Group.NOBODY;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.PriorityQueue;
import java.util.TreeMap;
import java.util.stream.IntStream;

/**
 * Loads made even by chains of transfers, until none would narrow a gap of two.
 *
 * <p>The most loaded member passes a partition to a reader with two fewer, or to one that passes
 * another on, and so on to such a reader. A member has given only at the largest load there was, so
 * that it never takes again: the loads of takers grow alone, and a look for the least loaded reader
 * goes on where the last one ended.
 */
final class LoadLevelling {
    private final Group group;
    private final int[] held;
    private final int[] owner;
    private final int[] count;
    private final Work work;
    /** Partitions of each member by topic; those that it held before are passed on last. */
    private final List<TreeMap<Integer, ArrayDeque<Integer>>> stacks = new ArrayList<>();
    /** Members that a chain may still reach. */
    private final boolean[] open;
    /** Open members by load, most first; an entry is stale once its member's load has changed. */
    private final PriorityQueue<Long> givers = new PriorityQueue<>();
    /** Readers of each reader set, made when a chain first looks there. */
    private final Readers[] readers;

    private LoadLevelling(Group group, int[] held, int[] owner, int[] count, Work work) {
        this.group = group;
        this.held = held;
        this.owner = owner;
        this.count = count;
        this.work = work;
        open = new boolean[count.length];
        readers = new Readers[group.readers.length];
        for (int m = 0; m < count.length; m++) {
            stacks.add(new TreeMap<>());
            open[m] = group.readsAnything(m);
            queue(m);
        }
        for (int p = 0; p < owner.length; p++) {
            if (owner[p] != NOBODY) {
                put(p, owner[p]);
            }
        }
    }

    /** Transfers partitions, in place. */
    static void run(Group group, int[] held, int[] owner, int[] count, Work work) {
        new LoadLevelling(group, held, owner, count, work).run();
    }

    private void run() {
        Readers all = new Readers(IntStream.range(0, count.length).toArray());
        while (!givers.isEmpty() && work.spend(1)) {
            long entry = givers.remove();
            int source = (int) entry;
            if (!open[source] || count[source] != -(entry >> Integer.SIZE)) {
                continue;
            }
            if (count[source] - count[all.leastLoaded()] < 2) {
                return;
            }
            if (!passOn(source)) {
                carryOutShortestChain(source);
            }
        }
    }

    private void queue(int member) {
        givers.add((long) -count[member] << Integer.SIZE | member);
    }

    private void put(int partition, int member) {
        var stack = stacks.get(member)
                .computeIfAbsent(group.partitionTopic[partition], t -> new ArrayDeque<>());
        if (held[partition] == member) {
            stack.addLast(partition);
        } else {
            stack.addFirst(partition);
        }
    }

    private Readers readersOf(int set) {
        if (readers[set] == null) {
            readers[set] = new Readers(group.readers[set]);
        }
        return readers[set];
    }

    /** A chain of one transfer; return whether there was one. */
    private boolean passOn(int source) {
        for (int topic : stacks.get(source).keySet()) {
            int taker = readersOf(group.readerSet[topic]).leastLoaded();
            if (count[taker] <= count[source] - 2) {
                transfer(topic, source, taker);
                shift(source, taker);
                return true;
            }
        }
        return false;
    }

    /** Where no chain reaches a member with two fewer, every member that was reached is closed. */
    private void carryOutShortestChain(int source) {
        int[] giver = new int[count.length];
        int[] topicOf = new int[count.length];
        Arrays.fill(giver, NOBODY);
        boolean[] seenSets = new boolean[readers.length];
        ArrayDeque<Integer> queue = new ArrayDeque<>(List.of(source));
        List<Integer> reached = new ArrayList<>(queue);
        work.spend(count.length + readers.length);
        while (!queue.isEmpty()) {
            int from = queue.remove();
            for (int topic : stacks.get(from).keySet()) {
                int set = group.readerSet[topic];
                if (seenSets[set]) {
                    continue;
                }
                seenSets[set] = true;
                int best = readersOf(set).leastLoaded();
                work.spend(group.readers[set].length);
                for (int m : group.readers[set]) {
                    if (open[m] && m != source && giver[m] == NOBODY) {
                        giver[m] = from;
                        topicOf[m] = topic;
                        reached.add(m);
                        queue.add(m);
                    }
                }
                if (count[best] <= count[source] - 2) {
                    for (int taker = best; taker != source; taker = giver[taker]) {
                        transfer(topicOf[taker], giver[taker], taker);
                    }
                    shift(source, best);
                    return;
                }
            }
        }
        reached.forEach(m -> open[m] = false);
    }

    private void transfer(int topic, int giver, int taker) {
        var stack = stacks.get(giver).get(topic);
        int partition = stack.remove();
        if (stack.isEmpty()) {
            stacks.get(giver).remove(topic);
        }
        owner[partition] = taker;
        put(partition, taker);
    }

    private void shift(int source, int end) {
        count[source]--;
        count[end]++;
        queue(source);
        queue(end);
    }

    /** Members of which the least loaded one is asked for again and again. */
    private final class Readers {
        private final int[] members;
        /** No open member before the next one has as few partitions as the level, or fewer. */
        private int next;
        private int level = NOBODY;

        Readers(int[] members) {
            this.members = members;
        }

        /** The least loaded open member; there is one, since the asking owner is. */
        int leastLoaded() {
            while (true) {
                for (; next < members.length; next++) {
                    if (open[members[next]] && count[members[next]] <= level) {
                        return members[next];
                    }
                }
                work.spend(members.length);
                level = Integer.MAX_VALUE;
                for (int m : members) {
                    level = open[m] ? Math.min(level, count[m]) : level;
                }
                next = 0;
            }
        }
    }
}
