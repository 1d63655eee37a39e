/**
 * One model server: started when somebody says so, watched until it can be asked, stopped in good order, left alone for longer and
 * longer where it fails. Decides neither when it is needed nor when it has to go: that does `arrange.ts`, which hears of each change.
 */
import type { ProcessSpec, ServerState } from '../domain/model-server.ts'
import type { Launched } from './child.ts'
import type { Look } from './engine.ts'

interface SupervisorDeps {
  spec: ProcessSpec
  clock: Clock
  /** Starts it on a port and with a key of its own. Throws or rejects with an Error whose message says what to do. */
  launch(): Promise<Launched>
  look(server: Launched): Promise<Look>
  /** Runs the command that ends it, if it has one. */
  runStopCommand(server: Launched): Promise<void>
  /** Its phase has changed. */
  onChange(): void
  /** It could not be started, or has ended by itself. */
  onFailed(failure: StartFailure): void
}

export interface StartFailure {
  /** In words for an administrator. */
  reason: string
  /**
   * `start`: the time in which it was to be ready has passed. `ended`: its process has, before it was ready; `crashed`: after that.
   * `foreign`: another server answers in its place. `missing`: what stays so until somebody does something; `memory`: it was never begun, for
   * want of that.
   */
  kind: 'start' | 'ended' | 'crashed' | 'foreign' | 'missing' | 'memory'
}

/** `stopping`: it takes no requests any more, and still has its memory. */
type Phase = 'stopped' | 'loading' | 'ready' | 'stopping' | 'failed'

/** After TERM, before KILL. */
const TERM_MS = 5_000
const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 60_000
/** One that has run for so long has not failed at its start. */
const PROVEN_MS = 60_000

export class Supervisor {
  phase: Phase = 'stopped'
  /** Why it is not running, where it should have been; forgotten once it can be asked. */
  failure: StartFailure | null = null
  /** Until it may be started again. */
  retryAtMs = 0
  server: Launched | null = null
  /** When it was started, and when it could be asked; on the clock that never steps. */
  startedMs = 0
  readyMs = 0
  /** How long it took to load last; null before it ever did. */
  loadMs: number | null = null
  isSleeping = false
  /** It could not be reached just now. */
  isDoubted = false
  readonly #deps: SupervisorDeps
  #failures = 0
  /** It is being stopped because it has failed. */
  #hasGivenUp = false
  #stopping: Promise<void> | null = null

  constructor(deps: SupervisorDeps) {
    this.#deps = deps
  }

  /** How its server is run. */
  get spec(): ProcessSpec {
    return this.#deps.spec
  }

  /** As clients and administrators are told it. */
  get state(): ServerState {
    if (this.phase === 'ready' && this.isSleeping) return 'sleeping'
    return this.phase === 'stopping' ? (this.#hasGivenUp ? 'failed' : 'stopped') : this.phase
  }

  /** Begins to start it. Does nothing where it runs, is still stopping, or may not be tried again yet. */
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

  /** Lets it be tried at once, whatever has failed. */
  forgive(): void {
    this.#failures = 0
    this.retryAtMs = 0
    if (this.phase === 'failed') this.#to('stopped')
  }

  /** It has done what it is for. */
  proved(): void {
    this.#failures = 0
  }

  /** A call could not reach it: its end is perhaps yet to be heard of. Looks whether it answers, and else has it started anew. */
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
        reason: `it could not be reached any more, though its process runs; ${LOG}`,
      })
    this.isDoubted = false
    onChange()
  }

  /** Stops it: TERM, after 5 s KILL. Resolves once nothing of it runs. */
  stop(): Promise<void> {
    const { server } = this
    if (this.#stopping) return this.#stopping
    if (server === null) {
      // It was about to be started.
      if (this.phase === 'loading') this.#to('stopped')
      return Promise.resolve()
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    // Whoever hears of the change may say it once more.
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

  /** It has ended, or is to. */
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
      this.#fail({ kind: 'ended', reason: `its process ${how} before it could be asked; ${LOG}` })
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

  /** Failed, until it may be tried again. */
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

const LOG = 'its log says why (tollgate upstreams logs ID)'

const FOREIGN = 'another server answers at its port, or has another model than its process says; it was not used'

const toLate = ({ startMs }: ProcessSpec) =>
  `it could not be asked within ${startMs / 1_000} s; raise deadlines.start if it is only slow, else ${LOG}`

/** Time, as what waits here sees it: tests have one of their own. */
export interface Clock {
  /** Never steps, ms. */
  nowMs(): number
  /** Calls back after so many ms. Returns what takes that back. */
  after(ms: number, then: () => void): () => void
}

/** Its timers keep no process alive. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms).unref()
    return () => clearTimeout(timer)
  },
}

export const sleep = (clock: Clock, ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve))

/** For how long a server has said nothing: neither where it was looked at, nor in an answer. */
export class Silence {
  #sinceMs: number | null = null

  end(): void {
    this.#sinceMs = null
  }

  /** Notes that nothing was said just now. Returns whether that has been so for `mostMs`. */
  lasts(nowMs: number, mostMs: number): boolean {
    this.#sinceMs ??= nowMs
    return nowMs - this.#sinceMs >= mostMs
  }
}

interface WatchDeps {
  clock: Clock
  look(): Promise<Look>
  /** Whether nobody wants to know any more. */
  isOver(): boolean
}

/** While it starts: at first often, since small ones are quick. */
const FIRST_LOOK_MS = 25
const LAST_LOOK_MS = 500
/** One whose port was taken has ended by then (llama-server: within 0.1 s). */
const UNSURE_MS = 500
/** Where it could not be reached. */
const DOUBT_LOOKS = 8
const DOUBT_MS = 250

/** Resolves once a server that starts can be asked, or another one answers in its place; to null where nobody wants to know any more. */
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

/** Resolves to whether a server that could not be reached answers after all; to null where nobody wants to know any more. */
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
