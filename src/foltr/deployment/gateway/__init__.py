"""The gateway: a node of a federation to which many devices connect by HTTPS.

- `signing`: what devices sign, and the tokens with which they fetch asks
- `steps`: one ask of the server, divided among devices, and their answers joined
- `enrolment`: the gateway's state on disk: invitations, devices, answers; writes of several
  requests in one transaction
- `devices`: the devices in memory
- `gateway`: one step of the protocol
- `presence`: which devices can be reached, and their requests that wait for an ask
- `app`, `connection_limits`, `https_server`: the HTTP requests, their limits, the server
- `client`, `device_folder`: a device; `async_client`: many devices in one process"""
