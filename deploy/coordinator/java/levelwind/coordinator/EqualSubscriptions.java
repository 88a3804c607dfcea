package levelwind.coordinator;

import static levelwind.coordinator.Group.NOBODY;

import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The uniform plan where all members read the same topics.
 *
 * <p>With q = partitions / members, the remainder's number of members have q + 1 partitions and the
 * others q. Claims stay as far as balance allows; the rest goes near its replicas, back to its
 * holders, and then to one member after another, so that partitions of a topic stay together. Of a
 * group at rest, whose claims are balanced and cover every partition, only remote partitions move.
 */
final class EqualSubscriptions {
    private final Group group;
    private final int[] held;
    private final Work work;
    private final boolean useRacks;

    EqualSubscriptions(Group group, int[] held, Work work) {
        this.group = group;
        this.held = held;
        this.work = work;
        this.useRacks = group.localityVaries();
    }

    int[] owners() {
        int[] owner = keepAndPlace(held);
        if (Arrays.equals(owner, held)) {
            return useRacks ? improvedAtRest() : owner;
        }
        Uniform.transfer(group, owner, held, work);
        return owner;
    }

    /** A member of unknown rack is no nearer than others here, so that it keeps what it has. */
    private int[] improvedAtRest() {
        int[] kept = held.clone();
        boolean[] movable = new boolean[kept.length];
        for (int p = 0; p < kept.length; p++) {
            int rack = group.memberRack[kept[p]];
            if (rack >= 0 && !group.isLocal(p, rack)) {
                kept[p] = NOBODY;
                movable[p] = true;
            }
        }
        int[] placed = keepAndPlace(kept);
        int[] owner = remote(placed) < remote(held) ? placed : held.clone();
        TransferGraph graph = TransferGraph.of(group);
        if (graph != null) {
            new TransferCycles(group, graph, held, movable, work).cancel(owner);
        }
        return owner;
    }

    private int remote(int[] owner) {
        int count = 0;
        for (int p = 0; p < owner.length; p++) {
            count += group.isRemote(p, owner[p]) ? 1 : 0;
        }
        return count;
    }

    private int[] keepAndPlace(int[] claims) {
        int quota = group.partitions() / group.members.length;
        int extras = group.partitions() % group.members.length;
        int[] owner = claims.clone();
        int usedExtras = dropClaimsAboveQuotas(owner, quota, extras);
        Placement placement = new Placement(owner, quota, extras - usedExtras);
        if (useRacks) {
            placement.placeNearReplicas();
        }
        placement.returnToHolders();
        placement.fillRemaining();
        return owner;
    }

    /** Of a member's too many claims local ones stay before remote ones, then low numbers. */
    private int dropClaimsAboveQuotas(int[] owner, int quota, int extras) {
        int[] count = group.counts(owner);
        int[] limit = new int[count.length];
        int used = 0;
        boolean above = false;
        for (int m = 0; m < count.length; m++) {
            limit[m] = quota + (count[m] > quota && used < extras ? 1 : 0);
            used += limit[m] - quota;
            above |= count[m] > limit[m];
        }
        if (above) {
            int[] kept = new int[count.length];
            IntStream.range(0, owner.length).filter(p -> owner[p] != NOBODY
                            && count[owner[p]] > limit[owner[p]]).boxed()
                    .sorted(Comparator.<Integer, Boolean>comparing(p -> group.isRemote(p, owner[p]))
                            .thenComparing(p -> p - group.topicStart[group.partitionTopic[p]])
                            .thenComparing(p -> p))
                    .forEach(p -> {
                        if (kept[owner[p]]++ >= limit[owner[p]]) {
                            owner[p] = NOBODY;
                        }
                    });
        }
        return used;
    }

    /** Owners and counts while partitions are placed. */
    private final class Placement {
        private final int[] owner;
        private final int quota;
        private final int[] count;
        /** Partitions of each member that its quota released, and that nobody has yet. */
        private final int[] awaited;
        /** Members that may still take one more than the quota. */
        private int extras;

        Placement(int[] owner, int quota, int extras) {
            this.owner = owner;
            this.quota = quota;
            this.extras = extras;
            this.count = group.counts(owner);
            this.awaited = new int[count.length];
            for (int p = 0; p < owner.length; p++) {
                if (owner[p] == NOBODY && held[p] != NOBODY) {
                    awaited[held[p]]++;
                }
            }
        }

        /** Place as many partitions as possible in the racks of their replicas. */
        void placeNearReplicas() {
            int[] rackRoom = new int[group.racks];
            int[] rackExtras = new int[group.racks];
            boolean[] useful = new boolean[group.racks];
            for (int m = 0; m < count.length; m++) {
                int rack = group.memberRack[m];
                if (rack >= 0) {
                    useful[rack] = true;
                    rackRoom[rack] += Math.max(quota - count[m], 0);
                    rackExtras[rack] += count[m] <= quota ? 1 : 0;
                }
            }
            RackFlow flow =
                    new RackFlow(group, free(), useful, rackRoom, rackExtras, extras, work);
            int[][] members = group.membersByRack();
            int rack = 0;
            for (List<Integer> partitions : flow.partitionsByRack()) {
                fillRack(partitions, members[rack++]);
            }
        }

        /** Slots that no released claim waits for come first, those above the quota last. */
        private void fillRack(List<Integer> partitions, int[] members) {
            if (partitions.isEmpty()) {
                return;
            }
            int[] waiting = IntStream.of(members).map(m -> awaited[m]).toArray();
            int[] spare = new int[members.length];
            int[] rest = new int[members.length];
            for (int i = 0; i < members.length; i++) {
                int room = Math.max(quota - count[members[i]], 0);
                spare[i] = Math.max(room - waiting[i], 0);
                rest[i] = room - spare[i];
            }
            IntStream above = IntStream.range(0, members.length)
                    .filter(i -> count[members[i]] <= quota).boxed()
                    .sorted(Comparator.comparing(i -> waiting[i])).mapToInt(i -> i);
            int[] slots = IntStream.concat(IntStream.concat(rounds(spare), rounds(rest)), above)
                    .limit(partitions.size()).map(i -> members[i]).toArray();
            for (int i = 0; i < slots.length; i++) {
                give(partitions.get(i), slots[i]);
            }
        }

        void returnToHolders() {
            int[] before = count.clone();
            for (int p = 0; p < owner.length; p++) {
                if (owner[p] != NOBODY || held[p] == NOBODY) {
                    continue;
                }
                int load = before[held[p]]++;
                if (load < quota || load == quota && extras > 0) {
                    give(p, held[p]);
                }
            }
        }

        /** Members of unknown rack come first, and partitions of unknown racks last. */
        void fillRemaining() {
            int[] free = free();
            int[] partitions = IntStream.concat(Arrays.stream(free).filter(group::racksKnown),
                    Arrays.stream(free).filter(p -> !group.racksKnown(p))).toArray();
            int[] order = IntStream.concat(
                    IntStream.range(0, count.length).filter(m -> group.memberRack[m] < 0),
                    IntStream.range(0, count.length).filter(m -> group.memberRack[m] >= 0))
                    .toArray();
            int above = partitions.length;
            for (int load : count) {
                above -= Math.max(quota - load, 0);
            }
            int next = 0;
            for (int m : order) {
                int slots = Math.max(quota - count[m], 0);
                if (above > 0 && count[m] <= quota) {
                    slots++;
                    above--;
                }
                for (; slots > 0 && next < partitions.length; slots--) {
                    give(partitions[next++], m);
                }
            }
        }

        private int[] free() {
            return IntStream.range(0, owner.length).filter(p -> owner[p] == NOBODY).toArray();
        }

        private void give(int partition, int member) {
            owner[partition] = member;
            if (held[partition] != NOBODY) {
                awaited[held[partition]]--;
            }
            extras -= ++count[member] == quota + 1 ? 1 : 0;
        }
    }

    /** Indices of members with room, once in each round. */
    private static IntStream rounds(int[] room) {
        int most = Arrays.stream(room).max().orElse(0);
        return IntStream.range(0, most).flatMap(
                round -> IntStream.range(0, room.length).filter(m -> room[m] > round));
    }
}
