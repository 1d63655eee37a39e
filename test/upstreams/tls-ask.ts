/**
 * Sends requests over TLS in a separate process, which trusts the CAs in its environment: `bun
 * test/upstreams/tls-ask.ts own|fetch URL...`.
 */
import { nameOf } from '../../src/domain/error.ts'
import { createFetchTransport } from '../../src/upstreams/fetch.ts'
import { createHttp1Transport } from '../../src/upstreams/http1/transport.ts'
import { toOutgoing } from '../support/outgoing.ts'

const [which, ...urls] = process.argv.slice(2)
const transport = which === 'own' ? createHttp1Transport() : createFetchTransport()
const said: string[] = []
for (const baseUrl of urls) {
  try {
    const incoming = await transport.send(toOutgoing(baseUrl)).answer
    said.push(`${incoming.status} ${await incoming.text(1_000, () => null)}`)
  } catch (error) {
    said.push(nameOf(error))
  }
}
process.stdout.write(`${JSON.stringify(said)}\n`)
process.exit(0)
