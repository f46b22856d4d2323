"""What gateways and workers share where requests go by a broker: names, messages, the way there."""
