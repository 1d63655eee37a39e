/**
 * Four models in memory for two, three keys, crashes, kills and disconnects: every request ends within the contract,
 * and no process is left. `MANAGED_SEED=n` repeats the requests.
 */
import { expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { modelServer } from '../support/model-server.ts'
import { createPicker } from '../support/random.ts'
import { until } from '../support/until.ts'

const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
const SEED = Number(process.env.MANAGED_SEED ?? Date.now() % 1e6)
const IDS = ['a', 'b', 'c', 'd']
const REQUESTS = 240

/** Marks this run's processes. */
const mark = `long-${process.pid}`

const catalog = `version: 1
memory: 10G
upstreams:
${IDS.map((id, index) => `  ${id}: { dialect: openai, process: ${JSON.stringify(modelServer('--load', String(50 * index), '--child', '--mark', mark))}, concurrency: 3, memory: 4G, idle: 2s, pin: ${id === 'a'} }`).join('\n')}
models:
${IDS.map((id) => `  local/${id}: { name: X, ${FACTS}, supported_features: [], routes: [{ upstream: ${id}, model: ${id} }] }`).join('\n')}
`

/** Running model servers and their guards. */
function alive(): { pid: number; args: string }[] {
  const { stdout } = Bun.spawnSync(['ps', '-eo', 'pid=,stat=,args='])
  const lines = stdout.toString().split('\n')
  return lines
    .filter((line) => line.includes(mark) && !/^\s*\d+\s+Z/.test(line))
    .map((line) => ({ pid: Number.parseInt(line, 10), args: line }))
}

const KNOWN = new Set([200, 429, 500, 502, 503, 504])

test(`requests to alternating models succeed, whatever happens to their servers (seed ${SEED})`, async () => {
  const pick = createPicker(SEED)
  const app = await startApp({ catalog, config: { retries: 2, share: 1, heartbeatMs: 200 } })
  const keys = [app.key(), app.key({ name: 'two' }), app.key({ name: 'three' })]
  let isOver = false
  const killing = (async () => {
    while (!isOver) {
      await Bun.sleep(1_500 + pick(1_500))
      // A killed guard stops nothing else: the gateway's stop ends its server.
      const servers = alive().filter(({ args }) => !args.includes('exec 3<&0'))
      const one = servers[pick(servers.length || 1)]
      if (one) process.kill(one.pid, 'SIGKILL')
    }
  })()

  const statuses = new Map<string, number>()
  const count = (what: string) => statuses.set(what, (statuses.get(what) ?? 0) + 1)
  const ask = async (index: number) => {
    const id = IDS[pick(IDS.length)] ?? 'a'
    const draw = pick(20)
    const content = draw === 0 ? 'crash' : draw === 1 ? 'fail' : draw < 8 ? `wait ${pick(400)}` : 'hello'
    const client = new AbortController()
    if (draw === 19) setTimeout(() => client.abort(), pick(800))
    await Bun.sleep(pick(12_000))
    try {
      const answer = await fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${keys[index % 3]}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: `local/${id}`, messages: [{ role: 'user', content }], stream: pick(2) === 0 }),
        signal: client.signal,
      })
      const text = await answer.text()
      expect(KNOWN).toContain(answer.status)
      if (answer.status === 200 && !text.includes('"error"')) {
        count('answered')
        // Only its own model's.
        expect(text.replace(/"\}.*?"content":"/gs, '')).toContain(`local/${id}`)
        if (text.startsWith('data:') || text.startsWith(':')) expect(text).toContain('[DONE]')
      } else count(answer.status === 200 ? 'cut' : String(answer.status))
    } catch (error) {
      if (!client.signal.aborted) throw error
      count('left')
    }
  }
  try {
    await Promise.all(Array.from({ length: REQUESTS }, (_, index) => ask(index)))
  } finally {
    isOver = true
    await killing
  }
  console.log(Object.fromEntries(statuses))
  // Nine of ten are ordinary; kills, crashes and breakers cost some.
  expect(statuses.get('answered') ?? 0).toBeGreaterThan(REQUESTS * 0.4)
  await until(
    'what is idle has stopped',
    () => new Set(alive().map(({ args }) => /--alias (\S+)/.exec(args)?.[1])).size <= 1,
  )
  const rows = await app.settled(await app.count())
  expect(rows.every(({ cost_nano_usd }) => cost_nano_usd === 0)).toBe(true)
  await app.stop()
  await until('no process is left', () => alive().length === 0)
}, 180_000)
