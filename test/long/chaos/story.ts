/**
 * One run of the chaos test, and all outside observations; `verdict.ts` judges it. The seed decides what happens at
 * which request.
 */
import { type KeyName, SHORTEST_DEADLINE_MS, toCatalog } from './catalog.ts'
import { ask, type Outcome } from './client.ts'
import { drawFor, type RequestPlan, toRequest } from './plan.ts'
import { type ChaosServer, createChaosServer, type Ran } from './server.ts'
import { type ChaosUpstreams, startUpstreams } from './upstreams.ts'

export interface StoryShape {
  requests: number
  clients: number
  kills: number
}

/** A stretch of `performance.now()`. */
export interface Stretch {
  fromMs: number
  toMs: number
}

export interface Story {
  seed: number
  outcomes: Outcome[]
  upstreams: ChaosUpstreams
  server: ChaosServer
  secrets: ReadonlyMap<KeyName, string>
  /** From a kill until the next server responds. */
  kills: Stretch[]
  change: Stretch
  drain: Stretch
  /** When this process stalled: deadlines that the gateway kept may seem missed. */
  stills: Stretch[]
  exitCode: number
  /** During the run, and after the end. */
  audits: Ran[]
  /** Wall clock minus `performance.now()`. */
  wallMs: number
  /** Ends whatever still runs. */
  stop(): Promise<void>
}

/** Requests left when the server is told to stop. */
const AFTER_DRAIN = 60

/** Leaves nothing running on failure. */
export async function playChaos(folder: string, seed: number, shape: StoryShape): Promise<Story> {
  const plans = new Map<number, RequestPlan>()
  const planOf = (number: number) => {
    const plan = plans.get(number) ?? toRequest(seed, number)
    plans.set(number, plan)
    return plan
  }
  const upstreams = await startUpstreams(seed, planOf)
  const server = await createChaosServer(folder)
  const watch = watchStills()
  const stop = async () => {
    await server.kill()
    await upstreams.stop()
  }
  const story: Story = {
    seed,
    outcomes: [],
    upstreams,
    server,
    secrets: new Map(),
    kills: [],
    change: { ...NEVER },
    drain: { ...NEVER },
    stills: watch.stills,
    exitCode: -1,
    audits: [],
    wallMs: Date.now() - performance.now(),
    stop,
  }
  try {
    await Bun.write(server.catalogFile, toCatalog('before', upstreams.urlOf))
    await server.start()
    await server.drain()
    story.secrets = await server.makeKeys()
    await server.start()
    await letAsk(story, shape, planOf)
    story.audits.push(await server.run('ledger', 'verify', '--json'))
    return story
  } catch (error) {
    await stop()
    throw error
  } finally {
    watch.stop()
  }
}

const LOOK_MS = 50
/** A third of the shortest deadline. */
const STILL_MS = SHORTEST_DEADLINE_MS / 3

function watchStills(): { stills: Stretch[]; stop(): void } {
  const stills: Stretch[] = []
  let fromMs = performance.now()
  const timer = setInterval(() => {
    const toMs = performance.now()
    if (toMs - fromMs > STILL_MS) stills.push({ fromMs, toMs })
    fromMs = toMs
  }, LOOK_MS)
  return { stills, stop: () => clearInterval(timer) }
}

const NEVER: Stretch = { fromMs: Number.POSITIVE_INFINITY, toMs: Number.POSITIVE_INFINITY }

/** Sequential requests per client. */
async function letAsk(story: Story, shape: StoryShape, planOf: (number: number) => RequestPlan): Promise<void> {
  const { server, secrets } = story
  const events = toEvents(story, shape)
  const underWay: Promise<void>[] = []
  let last = 0
  let up: Promise<void> = Promise.resolve()
  const client = async () => {
    for (;;) {
      await up
      if (last >= shape.requests) return
      const plan = planOf(++last)
      const event = events.get(last)
      if (event) {
        const done = event.act()
        underWay.push(done)
        if (event.down) up = done
      }
      story.outcomes.push(await ask(server.port, plan, secrets))
      await Bun.sleep(plan.pauseMs)
    }
  }
  await Promise.all(Array.from({ length: shape.clients }, client))
  await Promise.all(underWay)
}

interface Event {
  act(): Promise<void>
  down?: boolean
}

function toEvents(story: Story, { requests, kills }: StoryShape): Map<number, Event> {
  const random = drawFor(story.seed, 'story')
  const events = new Map<number, Event>()
  const at = (from: number, to: number) => Math.floor(requests * (from + random() * (to - from)))
  const killed = Array.from({ length: kills }, (_, i) => {
    const share = 0.7 / kills
    return at(0.15 + share * i, 0.15 + share * (i + 0.6))
  })
  for (const number of killed) events.set(number, { act: () => kill(story), down: true })
  // Sometimes at the moment of a kill.
  const changed = random() < 0.3 ? (killed.at(-1) ?? 0) + 1 : at(0.4, 0.48)
  events.set(changed, { act: () => change(story) })
  events.set(Math.floor(requests * 0.89), { act: () => auditBeside(story) })
  events.set(requests - AFTER_DRAIN, { act: () => drain(story) })
  return events
}

async function kill({ server, kills }: Story): Promise<void> {
  const stretch = { fromMs: performance.now(), toMs: Number.POSITIVE_INFINITY }
  kills.push(stretch)
  await server.kill()
  await server.start()
  stretch.toMs = performance.now()
}

async function change(story: Story): Promise<void> {
  const { server, upstreams } = story
  story.change.fromMs = performance.now()
  await Bun.write(server.catalogFile, toCatalog('after', upstreams.urlOf))
  const apply = () => server.run('catalog', 'apply', server.catalogFile, '--prune')
  let { code, stderr } = await apply()
  // The server was killed while applying it: applying it again changes nothing more.
  if (stderr.includes('The server did not respond')) ({ code, stderr } = await apply())
  if (code !== 0) throw new Error(`the catalogue was not applied: ${stderr}`)
  story.change.toMs = performance.now()
}

async function auditBeside({ server, audits }: Story): Promise<void> {
  audits.push(await server.run('ledger', 'verify', '--json'))
}

async function drain(story: Story): Promise<void> {
  story.drain.fromMs = performance.now()
  story.exitCode = await story.server.drain()
  story.drain.toMs = performance.now()
}
