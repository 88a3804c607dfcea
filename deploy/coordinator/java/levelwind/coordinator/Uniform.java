package levelwind.coordinator;

/**
 * Even loads first, then replicas in the owner's rack, then as few moves as possible.
 *
 * <p>The strategy `uniform` of levelwind's library: its plans have the same loads, as many
 * partitions near their owners, and as many moves. Source: the UniformAssignor of Kafka's group
 * coordinator (KIP-848), with the rack locality of KIP-881 that the coordinator dropped.
 */
final class Uniform {
    /** Steps of a search, a tenth of a second and less; only groups of thousands come near it. */
    static final long STEPS = 10_000_000;

    private Uniform() {}

    /** Owner of each partition, from the member that holds it now. */
    static int[] owners(Group group, int[] held) {
        if (group.partitions() == 0) {
            return new int[0];
        }
        Work work = new Work(STEPS);
        return group.equalSubscriptions
                ? new EqualSubscriptions(group, held, work).owners()
                : new MixedSubscriptions(group, held, work).owners();
    }

    /** The last target with its loads, improved by what they leave open. */
    static int[] relocated(Group group) {
        int[] owner = group.held.clone();
        if (owner.length > 0) {
            transfer(group, owner, group.held, new Work(STEPS));
        }
        return owner;
    }

    /** Improve what the loads leave open, in place: locality, then moves. */
    static void transfer(Group group, int[] owner, int[] held, Work work) {
        TransferGraph graph = TransferGraph.of(group);
        if (graph != null) {
            Relocation.improve(group, graph, owner, held, work);
            new TransferCycles(group, graph, held, null, work).cancel(owner);
        }
    }
}
