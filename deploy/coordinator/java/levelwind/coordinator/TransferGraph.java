package levelwind.coordinator;

import java.util.Arrays;

/**
 * Possible transfers between members, without an arc for each partition and reader.
 *
 * <p>Partitions of one reader set and one rack set form a <em>partition class</em>, readers of one
 * reader set in one rack a <em>reader class</em>: reader class s * width + r has the readers of set
 * s in rack r, and the unknown rack is the last one.
 */
final class TransferGraph {
    private static final int MAX_CELLS = 4_000_000;

    /** Racks and the unknown one. */
    final int width;
    /** Number of partition classes. */
    final int classes;
    /** Partition class of each partition. */
    final int[] classOf;
    /** Reader set of each partition class. */
    final int[] readerSetOfClass;
    /** Whether racks have no replica of a partition class, at class * width + rack. */
    final boolean[] remote;
    /** Members of each reader class, ascending. */
    final int[][] readers;

    private TransferGraph(Group group, int[] classOf, int[] pairOfClass) {
        width = group.racks + 1;
        classes = pairOfClass.length;
        this.classOf = classOf;
        readerSetOfClass = new int[classes];
        remote = new boolean[classes * width];
        for (int c = 0; c < classes; c++) {
            readerSetOfClass[c] = pairOfClass[c] / group.rackLocal.length;
            boolean[] local = group.rackLocal[pairOfClass[c] % group.rackLocal.length];
            boolean known = Group.isKnown(local);
            for (int rack = 0; rack < group.racks; rack++) {
                remote[c * width + rack] = known && !local[rack];
            }
        }
        readers = new int[group.readers.length * width][];
        for (int set = 0; set < group.readers.length; set++) {
            int[] sizes = new int[width];
            for (int m : group.readers[set]) {
                sizes[rack(group, m)]++;
            }
            for (int rack = 0; rack < width; rack++) {
                readers[set * width + rack] = new int[sizes[rack]];
            }
            for (int i = group.readers[set].length - 1; i >= 0; i--) {
                int m = group.readers[set][i];
                readers[set * width + rack(group, m)][--sizes[rack(group, m)]] = m;
            }
        }
    }

    /** The classes of a group; null where there are too many of them. */
    static TransferGraph of(Group group) {
        long pairs = (long) group.readers.length * group.rackLocal.length;
        if (Math.max(pairs, (long) group.readers.length * (group.racks + 1)) > MAX_CELLS) {
            return null;
        }
        int[] classOf = new int[group.partitions()];
        int[] pairOfClass = new int[(int) pairs];
        int[] classOfPair = new int[(int) pairs];
        int classes = 0;
        for (int p = 0; p < classOf.length; p++) {
            int pair = group.readerSet[group.partitionTopic[p]] * group.rackLocal.length
                    + group.rackSet[p];
            if (classOfPair[pair] == 0) {
                pairOfClass[classes] = pair;
                classOfPair[pair] = ++classes;
            }
            classOf[p] = classOfPair[pair] - 1;
        }
        boolean tooMany = (long) classes * (group.racks + 1) > MAX_CELLS;
        return tooMany ? null
                : new TransferGraph(group, classOf, Arrays.copyOf(pairOfClass, classes));
    }

    /** A member's rack, or the unknown one. */
    static int rack(Group group, int member) {
        return group.memberRack[member] < 0 ? group.racks : group.memberRack[member];
    }

    /** Steps of one look at everything. */
    long size() {
        long members = 0;
        for (int[] some : readers) {
            members += some.length;
        }
        return members + classOf.length + remote.length;
    }
}
