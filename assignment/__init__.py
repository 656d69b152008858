"""Pure core: strategies, coordination decisions, metrics, the contract of agent and dashboard."""

VERSION = "0.2.0"  # of agents and dashboard; agents say it when they join
