/**
 * Alerts to targets, over real sockets: each change once, however their receivers behave and across restarts of the
 * server.
 */
import { afterEach, expect, test } from 'bun:test'
import { sign } from '../../src/alerts/message.ts'
import { addTarget, removeTarget, type TargetOptions } from '../../src/alerts/targets.ts'
import { createTeller, type Teller } from '../../src/alerts/teller.ts'
import type { Alert, AlertSeverity, AlertTopic } from '../../src/domain/alerts.ts'
import { createLog } from '../../src/log.ts'
import { createAlertStore } from '../../src/store/sqlite/alert-store.ts'
import { createVault } from '../../src/store/vault.ts'
import { createFolder, HOUR } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { startTcpServer } from '../support/tcp-server.ts'

const DASHBOARD = 'https://gate.example/admin'

function createFixture() {
  const folder = createFolder()
  const alerts = createAlertStore(folder.database)
  const vault = createVault(folder.path)
  const clock = { ms: HOUR }
  const lines: string[] = []
  const log = createLog({ now: () => clock.ms, write: async (text) => void lines.push(text.toString()) })
  const startTeller = () =>
    createTeller({ ...{ alerts, vault, dashboardUrl: DASHBOARD, now: () => clock.ms, log, sendMs: 200 } })
  const got: { text: string; headers: Headers; body: string }[] = []
  const statuses: number[] = []
  const ids: (string | null)[] = []
  const receiver = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = await request.text()
      ids.push(request.headers.get('webhook-id'))
      got.push({ text: JSON.parse(body).text ?? '', headers: request.headers, body })
      const status = statuses.shift() ?? 200
      return new Response('gone wrong', { status, headers: { location: 'http://127.0.0.1:1/' } })
    },
  })
  const fixture = {
    ...{ folder, alerts, vault, clock, statuses, ids, startTeller, receiver },
    teller: startTeller(),
    by: () => ({ actor: 'test', nowMs: clock.ms }),
    add: (options: Partial<TargetOptions> = {}) =>
      addTarget(
        { alerts, vault, lookUp: null },
        { url: `${receiver.url}services/T0/B0/very-secret`, format: 'slack', ...options },
        fixture.by(),
      ),
    /** Messages received since the last call. */
    received: () => got.splice(0),
    /** Runs a look, and returns the messages then received. */
    async look(found: readonly Alert[], laterMs = 0, unknown: string[] = []) {
      clock.ms += laterMs
      await fixture.teller.look({ found: toFound(found), unknown: new Set(unknown) })
      await fixture.teller.deliver()
      return fixture.received().map(({ text }) => text)
    },
    async logged() {
      await log.flush()
      return lines.join('')
    },
    async close() {
      await receiver.stop(true)
      folder.close()
    },
  }
  return fixture
}

const fixture = forEachTest(createFixture)
const stopped: { stop(): unknown }[] = []
afterEach(async () => {
  for (const one of stopped.splice(0)) await one.stop()
})

const MINUTE = 60_000
const toFound = (all: readonly Alert[]) => new Map(all.map((one) => [one.id, { ...one, toAlert: () => one }]))
const alert = (name: string, severity: AlertSeverity = 'problem', topic: AlertTopic = 'upstream'): Alert => ({
  ...{ id: `${topic}:${name}`, topic, severity, message: `${name} is ${severity}.`, subject: null },
  ...{ path: '/upstreams', command: 'tollgate upstreams list' },
})
const [down] = [alert('a')]

test('an alert is sent once, also after a restart, and so is its end, once it has stayed away', async () => {
  await fixture.add()
  expect(await fixture.look([down])).toEqual([expect.stringContaining('problem*. a is problem.')])
  expect(await fixture.look([down], 10 * MINUTE)).toEqual([])
  fixture.teller = fixture.startTeller()
  expect(await fixture.look([down], 10 * MINUTE)).toEqual([])
  expect(await fixture.look([], MINUTE)).toEqual([])
  expect(await fixture.look([down], MINUTE)).toEqual([])
  expect(await fixture.look([], MINUTE)).toEqual([])
  fixture.teller = fixture.startTeller()
  expect(await fixture.look([], MINUTE)).toEqual([])
  expect(await fixture.look([], 2 * MINUTE)).toEqual(['*Tollgate: resolved* after 24 min. It was: a is problem.'])
  expect(await fixture.look([], 10 * MINUTE)).toEqual([])
  expect(await fixture.look([down], MINUTE)).toHaveLength(1)
})

test('a rise in severity is sent, and a fall only allows the next rise to be sent', async () => {
  await fixture.add()
  const at = (severity: AlertSeverity) => fixture.look([alert('ann', severity, 'budget')], 3 * MINUTE)
  expect(await at('info')).toHaveLength(1)
  expect(await at('warning')).toHaveLength(1)
  expect(await at('problem')).toHaveLength(1)
  expect(await at('info')).toEqual([])
  expect(await at('info')).toEqual([])
  expect(await at('problem')).toHaveLength(1)
})

test("a state that could not be read doesn't end an alert", async () => {
  await fixture.add()
  await fixture.look([down])
  for (let looks = 0; looks < 3; looks++) expect(await fixture.look([], 3 * MINUTE, ['upstream'])).toEqual([])
  for (let looks = 0; looks < 3; looks++) expect(await fixture.look([], 3 * MINUTE, [down.id])).toEqual([])
  await fixture.look([])
  expect(await fixture.look([], 3 * MINUTE)).toEqual([expect.stringContaining('resolved')])
})

test("a target only gets its topics, an unreported alert has no end, and other targets' records stay", async () => {
  await fixture.add({ topics: ['budget'] })
  expect(await fixture.look([down, alert('ann', 'warning', 'budget')])).toEqual([
    expect.stringContaining('ann is warning'),
  ])
  const later = await fixture.add({ name: 'later' })
  expect((await fixture.look([down])).join()).toContain('a is problem')
  await removeTarget(fixture.alerts, 'later', fixture.by())
  expect(await fixture.look([], 3 * MINUTE)).toEqual([expect.stringContaining('It was: ann is warning.')])
  expect(await fixture.alerts.readDeliveries({ targetId: later.target.id, limit: 9 })).toEqual([])
})

test('a failed delivery is retried with the same ID, also by the next server, and later changes follow it', async () => {
  const { secret } = await fixture.add({ format: 'json' })
  fixture.statuses.push(500, 302)
  await fixture.look([down])
  await fixture.look([down, alert('b')], 1_000)
  expect((await fixture.alerts.readDeliveries({ limit: 9 })).map(({ state, error }) => [state, error])).toEqual([
    ['pending', 'status 500'],
  ])
  fixture.teller = fixture.startTeller()
  await fixture.look([alert('b')], 5_000)
  expect((await fixture.alerts.readDeliveries({ limit: 1 }))[0]?.error).toContain('redirects')
  await fixture.look([alert('b')], 30_000)
  expect((await fixture.alerts.readDeliveries({ limit: 9 })).map(({ state, attempts }) => [state, attempts])).toEqual([
    ['delivered', 1],
    ['delivered', 3],
  ])
  expect(new Set(fixture.ids).size).toBe(2)
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
})

test('a received message verifies, and describes the change', async () => {
  const { secret } = await fixture.add({ format: 'json' })
  await fixture.teller.look({ found: toFound([down]), unknown: new Set() })
  await fixture.teller.deliver()
  const [received] = fixture.received()
  const { headers, body } = received ?? { headers: new Headers(), body: '' }
  const of = (name: string) => headers.get(`webhook-${name}`) ?? ''
  expect(of('signature')).toBe(`v1,${sign(secret ?? '', `${of('id')}.${of('timestamp')}.${body}`)}`)
  expect([of('id').slice(0, 4), Number(of('timestamp'))]).toEqual(['msg_', HOUR / 1_000])
  const { id, topic, severity, message, subject, command } = down
  expect(JSON.parse(body)).toEqual({
    type: 'alerts.changed',
    timestamp: new Date(HOUR).toISOString(),
    data: {
      dashboard_url: DASHBOARD,
      alerts: [
        {
          ...{ id, topic, severity, message, subject, command, status: 'started', ended_at: null },
          ...{ started_at: new Date(HOUR).toISOString(), url: `${DASHBOARD}/upstreams` },
        },
      ],
      more: 0,
    },
  })
})

test('a receiver that accepts and is silent, or never stops sending, ends at the deadline and delays no other', async () => {
  const silent = await startTcpServer(() => {})
  const endless = await startTcpServer((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nx: ')
    const talk = () => socket.write('y'.repeat(65_536), (error) => !error && setImmediate(talk))
    talk()
  })
  stopped.push(silent, endless)
  await fixture.add({ url: `http://127.0.0.1:${silent.port}/`, name: 'silent' })
  await fixture.add({ url: `http://127.0.0.1:${endless.port}/`, name: 'endless' })
  await fixture.add()
  expect(await fixture.look([down])).toHaveLength(1)
  const deliveries = await fixture.alerts.readDeliveries({ limit: 9 })
  expect(deliveries.map(({ state }) => state).sort()).toEqual(['delivered', 'pending', 'pending'])
})

test('a permanently gone receiver is given up; an unreachable one costs one delivery, whatever happens meanwhile', async () => {
  await fixture.add()
  fixture.statuses.push(410)
  await fixture.look([down])
  expect((await fixture.alerts.readDeliveries({ limit: 9 })).map(({ state }) => state)).toEqual(['failed'])
  fixture.statuses.push(...Array.from({ length: 40 }, () => 503))
  for (let looks = 0; looks < 39; looks++) {
    const found = Array.from({ length: looks }, (_, index) => alert(`b${index}`))
    expect((await fixture.look([down, ...found], 11 * MINUTE)).length).toBeLessThan(2)
  }
  const [last, ...others] = await fixture.alerts.readDeliveries({ limit: 9 })
  expect([last?.state, others.length]).toEqual(['pending', 1])
  const texts = await fixture.look([down], 11 * MINUTE)
  expect(texts).toHaveLength(1)
  expect((await fixture.alerts.readDeliveries({ limit: 9 })).map(({ state }) => state)).toContain('failed')
})

test('a removed target gets nothing more, not even pending messages', async () => {
  await fixture.add()
  fixture.statuses.push(500)
  await fixture.look([down])
  await removeTarget(fixture.alerts, new URL(fixture.receiver.url).hostname, fixture.by())
  expect(await fixture.look([down, alert('b')], 30 * MINUTE)).toEqual([])
  expect(await fixture.alerts.readPending()).toEqual([])
})

test("alerts that can't be recorded are sent anyway", async () => {
  await fixture.add()
  fixture.folder.database.run("CREATE TRIGGER full BEFORE INSERT ON alert_events BEGIN SELECT RAISE(FAIL, 'full'); END")
  fixture.folder.database.run(
    "CREATE TRIGGER sent BEFORE INSERT ON alert_deliveries BEGIN SELECT RAISE(FAIL, 'full'); END",
  )
  expect(await fixture.look([alert('disk', 'problem', 'disk')])).toHaveLength(1)
  expect(await fixture.look([alert('disk', 'problem', 'disk')], MINUTE)).toEqual([])
})

test('many alerts are one message, and a test is a separate one', async () => {
  await fixture.add()
  const many = Array.from({ length: 500 }, (_, index) => alert(`k${index}`, 'info', 'budget'))
  const texts = await fixture.look(many)
  expect(texts).toEqual([expect.stringContaining('And 480 more alerts')])
  const teller: Teller = fixture.teller
  expect(await teller.test('127.0.0.1')).toMatchObject({ kind: 'test', state: 'delivered', attempts: 1 })
  fixture.statuses.push(404)
  expect(await teller.test('127.0.0.1')).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('status 404'),
  })
  expect(fixture.received()).toHaveLength(2)
  expect(`${await fixture.logged()}${JSON.stringify(await fixture.alerts.readDeliveries({ limit: 9 }))}`).not.toContain(
    'very-secret',
  )
})
