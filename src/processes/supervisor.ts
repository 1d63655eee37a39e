/**
 * Starts, checks, and gracefully stops one model server, and backs off after failures. `arrange.ts` decides when it
 * runs.
 */
import type { ProcessSpec, ServerState } from '../domain/model-server.ts'
import type { Launched } from './child.ts'
import type { Look } from './engine.ts'

interface SupervisorDeps {
  spec: ProcessSpec
  clock: Clock
  /** @throws an Error that says what to do. */
  launch(): Promise<Launched>
  look(server: Launched): Promise<Look>
  runStopCommand(server: Launched): Promise<void>
  /** After each change of phase. */
  onChange(): void
  /** Called when the server failed to start or exited unexpectedly. */
  onFailed(failure: StartFailure): void
}

export interface StartFailure {
  /** Text for administrators. */
  reason: string
  /**
   * `start`: not ready in time. `ended`: exited before it was ready. `crashed`: after that. `foreign`: another server
   * has its port. `missing`: an administrator must fix it. `memory`: too little memory to start.
   */
  kind: 'start' | 'ended' | 'crashed' | 'foreign' | 'missing' | 'memory'
}

/** `stopping`: takes no requests, but still has its memory. */
type Phase = 'stopped' | 'loading' | 'ready' | 'stopping' | 'failed'

/** Time from TERM to KILL. */
const TERM_MS = 5_000
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 60_000
/** After this, a crash doesn't count as a failed start. */
const PROVEN_MS = 60_000

export class Supervisor {
  phase: Phase = 'stopped'
  /** Last failure; null once the server is ready. */
  failure: StartFailure | null = null
  retryAtMs = 0
  server: Launched | null = null
  /** Monotonic, ms. */
  startedMs = 0
  readyMs = 0
  /** Duration of the last load. */
  loadMs: number | null = null
  isSleeping = false
  /** True after a call couldn't reach the server. */
  isDoubted = false
  readonly #deps: SupervisorDeps
  #failures = 0
  /** True if the server is being stopped because it failed. */
  #hasGivenUp = false
  #stopping: Promise<void> | null = null

  constructor(deps: SupervisorDeps) {
    this.#deps = deps
  }

  get spec(): ProcessSpec {
    return this.#deps.spec
  }

  get state(): ServerState {
    if (this.phase === 'ready' && this.isSleeping) return 'sleeping'
    return this.phase === 'stopping' ? (this.#hasGivenUp ? 'failed' : 'stopped') : this.phase
  }

  /** Ignored if the server runs, is stopping, or may not be retried yet. */
  start(): void {
    if (this.phase !== 'stopped') return
    this.#to('loading')
    this.startedMs = this.#deps.clock.nowMs()
    const { startedMs } = this
    this.#load().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error)
      if (this.phase === 'loading' && this.startedMs === startedMs) this.#fail({ kind: 'missing', reason })
    })
  }

  /** Forgets failures. */
  forgive(): void {
    this.#failures = 0
    this.retryAtMs = 0
    if (this.phase === 'failed') this.#to('stopped')
  }

  proved(): void {
    this.#failures = 0
  }

  /** Call after a call couldn't reach the server. Restarts the server unless it responds. */
  doubt(): void {
    const { server } = this
    if (this.isDoubted || server === null || this.phase !== 'ready') return
    this.isDoubted = true
    void this.#lookAgain(server)
  }

  async #lookAgain(server: Launched): Promise<void> {
    const { clock, look, onChange } = this.#deps
    const isOver = () => this.server !== server || this.phase !== 'ready'
    const answers = await answersAfterAll({ clock, look: () => look(server), isOver })
    if (answers === null) return
    if (!answers)
      return this.#giveUp({
        kind: 'crashed',
        reason: `unreachable although its process runs; ${LOG}`,
      })
    this.isDoubted = false
    onChange()
  }

  /** TERM, then KILL after 5 s. Resolves when its whole group has ended. */
  stop(): Promise<void> {
    const { server } = this
    if (this.#stopping) return this.#stopping
    if (server === null) {
      if (this.phase === 'loading') this.#to('stopped')
      return Promise.resolve()
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    // Set first, because `onChange` may call `stop` again.
    this.#stopping = promise
    this.#to('stopping')
    void this.#end(server).finally(() => {
      this.#stopping = null
      resolve()
    })
    return promise
  }

  async #load(): Promise<void> {
    const { clock, spec, launch, look } = this.#deps
    const { startedMs } = this
    const server = await launch()
    if (this.phase !== 'loading' || this.startedMs !== startedMs) {
      server.signal('SIGKILL')
      return
    }
    this.server = server
    void server.exited.then((how) => this.#ended(server, how))
    clock.after(startedMs + spec.startMs - clock.nowMs(), () => {
      if (!this.#isOver(server)) this.#giveUp({ kind: 'start', reason: toLate(spec) })
    })
    const state = await untilReady({ clock, look: () => look(server), isOver: () => this.#isOver(server) })
    if (state === null) return
    if (state === 'foreign') return this.#giveUp({ kind: 'foreign', reason: FOREIGN })
    this.isSleeping = state === 'sleeping'
    this.readyMs = clock.nowMs()
    this.loadMs = this.readyMs - startedMs
    this.failure = null
    this.#to('ready')
  }

  /** True if the server has ended or should end. */
  #isOver = (server: Launched) => this.server !== server || this.phase !== 'loading' || server.ended !== null

  #giveUp(failure: StartFailure): void {
    this.#note(failure)
    this.#hasGivenUp = true
    void this.stop()
    this.#deps.onFailed(failure)
  }

  async #end(server: Launched): Promise<void> {
    const { clock, runStopCommand } = this.#deps
    await runStopCommand(server)
    server.signal('SIGTERM')
    const takeBack = clock.after(TERM_MS, () => server.signal('SIGKILL'))
    await server.exited
    takeBack()
  }

  #ended(server: Launched, how: string): void {
    if (this.server !== server) return
    this.server = null
    this.isSleeping = false
    this.isDoubted = false
    const { phase } = this
    if (phase === 'stopping') {
      if (this.#hasGivenUp) this.#await()
      else this.#to('stopped')
    } else if (phase === 'loading')
      this.#fail({ kind: 'ended', reason: `its process ${how} before it was ready; ${LOG}` })
    else if (phase === 'ready') {
      if (this.#deps.clock.nowMs() - this.readyMs >= PROVEN_MS) this.#failures = 0
      this.#fail({ kind: 'crashed', reason: `its process ${how}; ${LOG}` })
    }
  }

  #fail(failure: StartFailure): void {
    this.#note(failure)
    this.#await()
    this.#deps.onFailed(failure)
  }

  #note(failure: StartFailure): void {
    this.#failures++
    this.failure = failure
    const pauseMs = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (this.#failures - 1))
    this.retryAtMs = this.#deps.clock.nowMs() + pauseMs
  }

  #await(): void {
    const { clock } = this.#deps
    this.#hasGivenUp = false
    const { retryAtMs } = this
    this.#to('failed')
    clock.after(Math.max(0, retryAtMs - clock.nowMs()), () => {
      if (this.phase === 'failed' && this.retryAtMs === retryAtMs) this.#to('stopped')
    })
  }

  #to(phase: Phase): void {
    if (this.phase === phase) return
    this.phase = phase
    this.#deps.onChange()
  }
}

const LOG = 'see its log (tollgate upstreams logs ID)'

const FOREIGN = 'another server is on its port, or it loaded another model than `process` names; it was not used'

const toLate = ({ startMs }: ProcessSpec) =>
  `not ready within ${startMs / 1_000} s; if it is just slow, raise deadlines.start, else ${LOG}`

export interface Clock {
  /** Monotonic, ms. */
  nowMs(): number
  /** @returns a cancel function. */
  after(ms: number, then: () => void): () => void
}

/** Its timers don't keep the process alive. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms).unref()
    return () => clearTimeout(timer)
  },
}

export const sleep = (clock: Clock, ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve))

/** Tracks how long a server has not responded to health checks and requests. */
export class Silence {
  #sinceMs: number | null = null

  end(): void {
    this.#sinceMs = null
  }

  /** @returns true once silence has lasted `mostMs`. */
  lasts(nowMs: number, mostMs: number): boolean {
    this.#sinceMs ??= nowMs
    return nowMs - this.#sinceMs >= mostMs
  }
}

interface WatchDeps {
  clock: Clock
  look(): Promise<Look>
  isOver(): boolean
}

/** Small models load fast. */
const FIRST_LOOK_MS = 25
const LAST_LOOK_MS = 500
/** A server whose port was taken has exited by then (llama-server: 0.1 s). */
const UNSURE_MS = 500
const DOUBT_LOOKS = 8
const DOUBT_MS = 250

/** Null if the result is no longer needed. */
async function untilReady({ clock, look, isOver }: WatchDeps): Promise<'ready' | 'sleeping' | 'foreign' | null> {
  let unsureSinceMs: number | null = null
  for (let pauseMs = FIRST_LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LAST_LOOK_MS)) {
    const { state } = await look()
    if (isOver()) return null
    const nowMs = clock.nowMs()
    if (state === 'unsure') unsureSinceMs ??= nowMs
    if (state === 'ready' || state === 'sleeping' || state === 'foreign') return state
    if (unsureSinceMs !== null && nowMs - unsureSinceMs >= UNSURE_MS) return 'ready'
    await sleep(clock, pauseMs)
    if (isOver()) return null
  }
}

/** Null if the result is no longer needed. */
async function answersAfterAll({ clock, look, isOver }: WatchDeps): Promise<boolean | null> {
  for (let looks = 0; looks < DOUBT_LOOKS; looks++) {
    const { state } = await look()
    if (isOver()) return null
    if (state !== 'loading' && state !== 'foreign') return true
    await sleep(clock, DOUBT_MS)
    if (isOver()) return null
  }
  return false
}
