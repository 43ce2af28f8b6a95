"""MCAP recordings and ROS 2 bags: messages of many rates, brought to one."""
