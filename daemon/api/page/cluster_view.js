// Brokers and racks.

import { age, badge, h, put, tile } from "./dom.js";
import { count, DASH, percent, whole } from "./format.js";
import { read } from "./store.js";

const FETCHING = new Map([[true, "from followers in the rack"], [false, "from leaders alone"], [null, "unknown"]]);

export class ClusterView {
  constructor() {
    this.title = "Brokers and racks";
    this.body = h("div", {});
    this.element = h("section", { class: "page" }, h("h1", {}, "Brokers and racks"), this.body);
    this.refresh();
  }

  close() {}

  onChange(change) {
    if (change.parts?.has("cluster")) this.refresh();
  }

  async refresh() {
    try {
      this.show(await read("cluster"));
    } catch (error) {
      put(this.body, h("p", { class: "empty" }, error.message));
    }
  }

  show(cluster) {
    const brokers = new Map(cluster.brokers.map((broker) => [broker.broker, broker]));
    const leads = Math.max(1, ...cluster.brokers.map((broker) => broker.leads));
    put(this.body, 
      h("dl", { class: "tiles" }, tile("Brokers", whole(cluster.brokers.length),
        `${whole(cluster.brokers.filter((broker) => broker.online).length)} online`),
        tile("Racks", whole(cluster.racks.filter((rack) => rack.rack !== null).length)),
        tile("Topics", whole(cluster.topics)), tile("Partitions", whole(cluster.partitions)),
        tile("Without a leader", whole(cluster.leaderless))),
      h("div", { class: "cards" }, cluster.racks.map((rack) => h("section", { class: "card" },
        h("h2", {}, rack.rack === null ? "Without a rack" : rack.rack),
        h("p", { class: "muted" }, `${count(rack.members, "member")}, leads ${count(rack.leads, "partition")}`),
        h("ul", { class: "brokers" }, rack.brokers.map((id) => brokerOf(brokers.get(id), leads)))))),
      cluster.brokers.length ? null : h("p", { class: "empty" }, "No broker was described yet."));
  }
}

function brokerOf(broker, most) {
  const share = broker.leads / most;
  const fillElement = h("span", { class: "bar-fill" });
  fillElement.style.width = `${Math.round(share * 100)}%`;
  return h("li", { class: broker.online ? "" : "offline" },
    h("div", { class: "broker-head" }, h("strong", {}, `Broker ${broker.broker}`),
      broker.online ? badge("online", "good") : badge("offline", "bad"),
      broker.out_of_sync ? badge(`${whole(broker.out_of_sync)} not in sync`, "warn", "replicas that are not in sync") : null),
    h("div", { class: "bar", title: percent(share) }, fillElement),
    h("p", { class: "muted" }, `leads ${whole(broker.leads)}, holds ${whole(broker.replicas)} replicas; `
      + `consumers fetch ${FETCHING.get(broker.follower_fetching) ?? DASH}; seen `, age(broker.at)));
}
