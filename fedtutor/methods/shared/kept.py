"""What methods share that average a part of the network, while the rest stays with each client."""

from dataclasses import dataclass

from torch import Tensor, nn

from ...errors import ModelError
from ..fedavg import FedAvg


@dataclass
class KeepsPart(FedAvg):
    """FedAvg without what `stays` names; a client is tested with its own network.

    evaluate = "server": as it is when a round's average has come back, so that a client has the
    average and its own part. A round ends with this download ("average"), and the next one begins
    without one for all who have it, so that a run has one download more than FedAvg's where
    everybody takes part; whoever sat out is tested with the last average that it received.
    evaluate = "client": as it is after local training, and averages come as a round begins.
    """

    def stays(self, network: nn.Module) -> set[str]:
        """The names in its `state_dict` that never cross."""
        raise NotImplementedError

    def start(self, fed):
        super().start(fed)
        if not self.part(fed.server.model):
            raise ModelError(
                f"{fed.method.name} leaves nothing of the network to be averaged",
                where="setting 'models'",
                do="choose a network with layers before its classifier",
            )
        fed.server.state["has"] = []  # whose network has the newest average

    def collaborate(self, fed, clients):
        if fed.round_ > 1 or self.start_from == "server":
            self.hand_out(fed, clients, "weights")

    def hand_out(self, fed, clients, name: str):
        """The average, to whom has an older one."""
        has = fed.server.state["has"]
        old = [client for client in clients if client.id not in has]
        fed.download(old, name, self.receive, self.part(fed.server.model))
        fed.server.state["has"] = [*has, *(client.id for client in old)]

    def receive(self, client, part):
        client.model.load_state_dict(part, strict=False)

    def aggregate(self, fed, clients):
        uploads = fed.upload(clients, "weights", self.own_part)
        mean = self.combine(fed, clients, uploads, self.shares(fed, clients))
        fed.server.model.load_state_dict(mean, strict=False)
        fed.server.state["has"] = []
        if self.evaluate == "server":
            self.hand_out(fed, clients, "average")

    def own_part(self, client):
        return self.part(client.model)

    def part(self, network: nn.Module) -> dict[str, Tensor]:
        """What crosses of a network."""
        stays = self.stays(network)
        return {name: w for name, w in network.state_dict().items() if name not in stays}

    def evaluated(self, fed, client):
        return client.model
