/** A stored credential reaches only its upstream, and adds no cost to requests. */
import { expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { editUpstream, type UpstreamChanges } from '../../src/catalog/edit-upstream.ts'
import { openForCommand } from '../../src/store/sqlite/open.ts'
import { createVault } from '../../src/store/vault.ts'
import { startGateway } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const SECRET = 'not-like-any-key~0123456789'

const gateway = forEachTest(startGateway)

/** As another process does it. */
async function edit(changes: UpstreamChanges): Promise<void> {
  const { dataFolder } = gateway.app
  const { sqlite, store } = openForCommand(dataFolder, {})
  const deps = { store, vault: createVault(dataFolder), lookUp: async () => [] }
  await editUpstream(deps, 'paid', changes, { actor: 'test', nowMs: gateway.app.clock.nowMs })
  sqlite.close()
}

const untilSent = () =>
  until('the credential is sent', async () => {
    await (await gateway.chat()).text()
    return gateway.upstream.requests.at(-1)?.headers.authorization === `Bearer ${SECRET}`
  })

test("a running server accepts one, sends it to its upstream, and redacts it in the upstream's errors", async () => {
  gateway.app.secrets.push(SECRET)
  await edit({ apiKey: SECRET })
  await untilSent()
  gateway.upstream.script({ kind: 'whole', status: 401, body: { error: { message: `no such key: ${SECRET}` } } })
  const refused = await gateway.chat()
  expect(refused.status).toBe(502)
  expect(await refused.text()).not.toContain(SECRET)
  expect(await gateway.app.logText()).not.toContain(SECRET)
})

test('a server that has decrypted it works on without the file, also after other changes', async () => {
  await edit({ apiKey: SECRET })
  await untilSent()
  rmSync(join(gateway.app.dataFolder, 'secret'))
  await edit({ baseUrl: gateway.upstream.url, enabled: false })
  await until('nothing is sent', async () => (await gateway.chat()).status !== 200)
  await edit({ enabled: true })
  await untilSent()
})
