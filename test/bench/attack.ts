/**
 * `bun test/bench/attack.ts`: latency of one key while another attacks. Asks at a steady pace over new connections,
 * first alone, then during an attack. Prints latency, failures, log size and memory (peak, and after the attack).
 * `--only NAME,...` (see `attacks.ts`) · `--seconds 15` · TOLLGATE_BINARY names the build (dist/tollgate),
 * TOLLGATE_BEFORE another one, `before`.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { findFreePort } from '../support/free-port.ts'
import { type AttackName, attackOf, isAttack, NAMES } from './attacks.ts'
import { guardChildren, peakMegabytes, rssMegabytes, startProcess, waitUntilUp } from './processes.ts'
import { toFigure, toTable } from './table.ts'
import {
  BEFORE,
  BUILDS,
  type Build,
  binaryOf,
  MEDIA,
  MODEL,
  NATIVE_MODEL,
  readFirstKey,
  toCatalog,
  toServe,
} from './tollgate.ts'

const { values } = parseArgs({
  options: { only: { type: 'string' }, seconds: { type: 'string', default: '15' } },
})
const SECONDS = Number(values.seconds)
/** 40 requests per second, which leave a core nearly idle. */
const PACE_MS = 25
const WARM_UP = 400
/** Later responses count as failed. */
const PATIENCE_MS = 60_000
/** Memory is measured this long after an attack. */
const AFTER_MS = 15_000

interface Fared {
  asked: number
  failed: number
  p50Ms: number
  p99Ms: number
  slowestMs: number
  logKilobytesPerSecond: number
  peakMegabytes: number
  afterMegabytes: number
}

/** Latency counts from when the request was due. */
async function stand(origin: string, key: string, requests: number, question: unknown): Promise<number[]> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' }
  const body = JSON.stringify(question)
  const asking: Promise<number>[] = []
  const began = performance.now()
  for (let i = 0; i < requests; i += 1) {
    const due = began + i * PACE_MS
    await Bun.sleep(Math.max(0, due - performance.now()))
    asking.push(
      fetch(`${origin}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body,
        keepalive: false,
        signal: AbortSignal.timeout(PATIENCE_MS),
      }).then(
        async (answer) => {
          await answer.text()
          return answer.ok ? performance.now() - due : Number.POSITIVE_INFINITY
        },
        () => Number.POSITIVE_INFINITY,
      ),
    )
  }
  return Promise.all(asking)
}

function toFared(times: readonly number[]): Omit<Fared, 'logKilobytesPerSecond' | 'peakMegabytes' | 'afterMegabytes'> {
  const sorted = times.filter(Number.isFinite).sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return {
    asked: times.length,
    failed: times.length - sorted.length,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    slowestMs: at(1),
  }
}

async function measure(
  build: Build,
  name: AttackName | null,
  folder: string,
  [upstream, mediaUpstream]: readonly string[],
): Promise<Fared> {
  mkdirSync(folder, { recursive: true })
  const port = await findFreePort()
  const entry = { base_url: `${upstream}/v1` }
  const catalog = toCatalog(
    {
      ...{ bench: entry, messages: { ...entry, dialect: 'anthropic' } },
      media: { base_url: `${mediaUpstream}/v1` },
    },
    {
      ...{ [MODEL]: [{ upstream: 'bench' }], [NATIVE_MODEL]: [{ upstream: 'messages' }] },
      // Only GPT image models stream.
      ...Object.fromEntries(Object.values(MEDIA).map((name) => [name, [{ upstream: 'media', model: 'gpt-image-1' }]])),
    },
  )
  const binary = binaryOf(build)
  const attack = name === null ? null : attackOf(name)
  const { command, logFile, data } = toServe(folder, port, catalog, binary)
  const limited = attack?.files === undefined ? [] : ['prlimit', `--nofile=${attack.files}:${attack.files}`]
  const server = startProcess([...limited, ...command, '--first-key'], logFile)
  const origin = `http://127.0.0.1:${port}`
  await waitUntilUp(`${origin}/healthz`)
  const bystander = await readFirstKey(logFile)
  const made = Bun.spawnSync([binary, 'keys', 'create', '--name', 'hostile', '--data', data])
  const hostile = /sk-tg-\w+/.exec(made.stdout.toString())?.[0] ?? ''
  await waitUntilUp(`${origin}/v1/models`, { headers: { authorization: `Bearer ${hostile}` } })
  const credential = (await attack?.prepare?.({ origin, binary, data })) ?? hostile
  const question = { model: MODEL, messages: [{ role: 'user', content: 'Yes or no?' }], ...attack?.question }
  await stand(origin, bystander, WARM_UP / 4, question)
  const attacker = name
    ? startProcess(
        ['nice', process.execPath, resolve(import.meta.dir, 'attacker.ts'), name, origin, credential],
        join(folder, 'attacker.log'),
      )
    : null
  // The attack is in progress before the first request.
  await Bun.sleep(attacker ? 2_000 : 0)
  const began = performance.now()
  const logged = statSync(logFile).size
  const times = await stand(origin, bystander, (SECONDS * 1_000) / PACE_MS, question)
  const logKilobytesPerSecond = (statSync(logFile).size - logged) / (performance.now() - began)
  await attacker?.stop()
  await Bun.sleep(attacker ? AFTER_MS : 0)
  const memory = { peakMegabytes: peakMegabytes(server.pid), afterMegabytes: rssMegabytes(server.pid) }
  await server.stop()
  return { ...toFared(times), logKilobytesPerSecond, ...memory }
}

const asked = values.only?.split(',') ?? NAMES
const unknown = asked.filter((name) => !isAttack(name))
if (unknown.length > 0) throw new Error(`unknown attack: ${unknown.join(', ')}; there are ${NAMES.join(', ')}`)
guardChildren(30 * 60_000)
const root = mkdtempSync(join(tmpdir(), 'tollgate-attack-'))
process.on('exit', () => rmSync(root, { recursive: true, force: true }))
/** A second upstream for other endpoints than chat, so that its work doesn't slow the bystander's upstream. */
const upstreams = await Promise.all(
  ['upstream', 'media'].map(async (name) => {
    const port = await findFreePort()
    const url = `http://127.0.0.1:${port}`
    const child = startProcess(
      [process.execPath, resolve(import.meta.dir, 'attack-upstream.ts'), String(port)],
      join(root, `${name}.log`),
    )
    await waitUntilUp(`${url}/models`)
    return { url, child }
  }),
)
const rows: string[][] = []
for (const attack of [null, ...NAMES.filter((known) => asked.includes(known))])
  for (const build of BUILDS.filter((name) => name !== 'before' || BEFORE)) {
    console.error(`${attack ?? 'nobody attacks'}: ${build}`)
    const fared = await measure(
      build,
      attack,
      join(root, `${attack}-${build}`),
      upstreams.map(({ url }) => url),
    )
    rows.push([
      `${attack ?? 'none'}, ${build}`,
      String(fared.asked),
      String(fared.failed),
      ...[fared.p50Ms, fared.p99Ms, fared.slowestMs, fared.logKilobytesPerSecond].map((figure) => toFigure(figure)),
      ...[fared.peakMegabytes, fared.afterMegabytes].map((megabytes) => toFigure(megabytes, 0)),
    ])
  }
await Promise.all(upstreams.map(({ child }) => child.stop()))
console.log(
  toTable(
    ['a bystander while', 'asked', 'failed', 'p50 ms', 'p99 ms', 'slowest ms', 'log kB/s', 'peak MB', 'after MB'],
    rows,
  ),
)
process.exit(0)
