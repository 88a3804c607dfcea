package levelwind.coordinator;

import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;

/**
 * `rack-uniform`: Kafka's `uniform` with the racks that groups of KIP-848 lost (KAFKA-16694).
 *
 * <p>Loads are even first, then as many partitions as possible are near their readers, then as few
 * as possible move.
 */
public final class RackUniformAssignor extends CautiousAssignor {
    @Override
    public String name() {
        return "rack-uniform";
    }

    @Override
    int[] owners(Group group, GroupSpec spec) {
        return Uniform.owners(group, group.held);
    }
}
