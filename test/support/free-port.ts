/** A free port of 127.0.0.1, for servers that take their port on the command line. */
import { startTcpServer } from './tcp-server.ts'

export async function findFreePort(): Promise<number> {
  const server = await startTcpServer(() => {})
  await server.stop()
  return server.port
}
