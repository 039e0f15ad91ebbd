"""FedGKD: the average of the last global models teaches.

Yao et al., "FedGKD: Toward Heterogeneous Federated Learning via Global Knowledge Distillation",
IEEE Transactions on Computers, 2023. Local objective:
L_CE + mu tau^2 KL(softmax(z_teacher / tau) || softmax(z / tau)).
"""

from dataclasses import dataclass

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from .. import losses
from .base import register
from .fedavg import FedAvg, average, load
from .shared.public import frozen, teacher_logits


@register("fedgkd")
@dataclass
class FedGKD(FedAvg):
    """The paper's weight is gamma / 2, its code's is gamma, with tau^2; here mu is all of it.

    In round 1 no global model has been trained, and labels alone count, as in the code. With
    past = 1 the teacher is the network that the client has just received, otherwise it is sent
    beside it. mu = 0 is FedAvg. The teacher runs in evaluation mode; running statistics of batch
    norm are averaged like weights, in the teacher too.
    """

    mu: NonNegativeFloat = 0.01  # FedCSD Sec. V-A
    tau: PositiveFloat = 1.0
    past: PositiveInt = 5  # how many of the last global models teach; the code's README has 5

    def build(self, client, make):
        return {"model": make(), "teacher": frozen(make())}

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        past = fed.server.state.get("past", [])
        fed.ask(clients, self.keep_received, bool(past))
        if len(past) > 1:
            fed.download(clients, "teacher", self.receive, average(past, [1] * len(past)))

    def keep_received(self, client, taught: bool):
        """The network that has just arrived is the teacher, once it has been `taught` anything."""
        client.models["teacher"].load_state_dict(client.model.state_dict())
        client.state["taught"] = taught

    def receive(self, client, state):
        load(client, state, "teacher")

    def local_loss(self, client, x, y):
        z = client.model(x)
        loss = losses.cross_entropy(z, y)
        if not client.state["taught"]:
            return loss
        z_teacher = client.fixed("teacher", "logits", teacher_logits, x)
        return loss + self.mu * losses.tempered_distillation(z, z_teacher, tau=self.tau)

    def aggregate(self, fed, clients):
        super().aggregate(fed, clients)
        new = {name: value.clone() for name, value in fed.server.model.state_dict().items()}
        fed.server.state["past"] = [*fed.server.state.get("past", []), new][-self.past :]
