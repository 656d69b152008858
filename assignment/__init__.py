"""Pure core: strategies, coordination decisions, metrics, the contract of agent and dashboard."""
