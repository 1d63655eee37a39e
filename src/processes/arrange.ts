/**
 * Decides, whenever something has changed, which model servers run: those that somebody waits for, as far as memory goes round; not
 * those that are idle, sick, or no longer declared. Nothing that is answering is stopped, but for a sick one. Kept by `fleet.ts`;
 * whoever changes something tells it.
 */
import { CPU, type MemoryBudgets, type ProcessSpec } from '../domain/model-server.ts'
import type { Log } from '../log.ts'
import type { MeasuredMemory } from './managed.ts'
import { type ManagedModel, toTooLarge } from './model.ts'
import type { Clock } from './supervisor.ts'

export interface ArrangeDeps {
  clock: Clock
  measured: MeasuredMemory
  log: Pick<Log, 'info' | 'warn' | 'error'>
}

/** Those that wait for a loaded model go first for so long. */
const PATIENCE_MS = 20_000
/** What a sick server is still answering is waited for so long. */
const SICK_GRACE_MS = 10_000
const NEVER = Number.POSITIVE_INFINITY

export class Arrangement {
  /** By the ids of their upstreams. */
  readonly models = new Map<string, ManagedModel>()
  /** What all of them together may take. */
  memory: MemoryBudgets = new Map()
  /** Nothing is started any more. */
  isDraining = false
  readonly #deps: ArrangeDeps
  #isArranging = false
  #isChanged = false
  #takeBack = () => {}

  constructor(deps: ArrangeDeps) {
    this.#deps = deps
  }

  /** Looks at everything anew, once for all that changes meanwhile. */
  changed(): void {
    this.#isChanged = true
    if (this.#isArranging) return
    this.#isArranging = true
    try {
      while (this.#isChanged) {
        this.#isChanged = false
        this.#arrange()
      }
    } finally {
      this.#isArranging = false
    }
  }

  stop(): void {
    this.#takeBack()
  }

  /** What the plan takes a model to need; null where nobody knows yet. */
  needOf = ({ supervisor: { spec } }: ManagedModel): number | null =>
    spec.memoryBytes ?? (isMeasurable(spec) ? this.#deps.measured.get(spec.hash) : null)

  /** Whether it needs more than it can ever have beside what is pinned; its failure is that from then on. */
  isTooLarge(model: ManagedModel): boolean {
    const { supervisor } = model
    if (supervisor.phase !== 'stopped') return false
    const step = this.#plan(model, this.#deps.clock.nowMs())
    if (step.kind === 'never') this.#noteTooLarge(model, step.mostBytes)
    else if (supervisor.failure?.kind === 'memory') supervisor.failure = null
    return step.kind === 'never'
  }

  /** Remembers what its server has in memory now. */
  measure({ supervisor }: ManagedModel): void {
    const { spec } = supervisor
    if (!isMeasurable(spec)) return
    const bytes = supervisor.phase === 'ready' ? (supervisor.server?.memoryBytes() ?? null) : null
    if (bytes !== null) this.#deps.measured.note(spec.hash, bytes)
  }

  #arrange(): void {
    const { clock } = this.#deps
    const nowMs = clock.nowMs()
    for (const model of this.models.values()) this.#settle(model)
    let wakeMs = this.#planMemory(nowMs)
    for (const model of this.models.values()) {
      model.serve(clock.nowMs, () => {
        this.measure(model)
        this.changed()
      })
      wakeMs = Math.min(wakeMs, this.#stopIdle(model, nowMs))
    }
    this.#takeBack()
    this.#takeBack = wakeMs === NEVER ? () => {} : clock.after(Math.max(0, wakeMs - nowMs), () => this.changed())
  }

  /** Brings a model to its newest command, or to its end, as far as its answers let it. */
  #settle(model: ManagedModel): void {
    const { supervisor, next } = model
    if (model.isSick && !model.isLeaving) this.#leaveSick(model)
    if (!model.isLeaving && next === null && !model.isGone) return
    if (supervisor.phase !== 'stopped' && supervisor.phase !== 'failed') {
      model.isLeaving = true
      if (supervisor.phase === 'loading' || model.answering === 0) void supervisor.stop()
      return
    }
    model.forget()
    if (model.isGone) this.models.delete(model.upstream.id)
    if (next === null) return
    model.supervisor = next
    model.next = null
  }

  #leaveSick(model: ManagedModel): void {
    const { clock, log } = this.#deps
    const what = 'a model server fails at everything, and is stopped; the next request starts it again'
    log.warn('process_unhealthy', what, { upstream: model.upstream.id })
    model.isLeaving = true
    const { server } = model.supervisor
    clock.after(SICK_GRACE_MS, () => {
      if (model.supervisor.server === server && server !== null) void model.supervisor.stop()
    })
  }

  /** Starts and stops what the plan of memory says. Returns when to look again. */
  #planMemory(nowMs: number): number {
    for (const model of this.models.values()) model.isHeld = false
    if (this.isDraining) return NEVER
    const wanted = [...this.models.values()].filter(isStartable).toSorted((a, b) => a.sinceMs() - b.sinceMs())
    const blocked = new Set<string | null>()
    let wakeMs = NEVER
    for (const model of wanted) {
      const { device } = model.supervisor.spec
      const step = this.#plan(model, nowMs)
      if (step.kind === 'start') this.#start(model)
      else if (step.kind === 'never') this.#refuse(model, step.mostBytes)
      // Nobody waits: it comes with its first request.
      else if (model.line.length === 0 && model.wanted === 'preload') model.wanted = null
      // Those that came later take only what is free there: first it is the oldest one's turn.
      else if (!blocked.has(device)) {
        blocked.add(device)
        if (step.kind === 'evict') for (const id of step.ids) this.#evict(id, nowMs)
        else {
          for (const id of step.hold) this.#hold(id)
          wakeMs = Math.min(wakeMs, step.atMs ?? NEVER)
        }
      }
    }
    return wakeMs
  }

  #plan(model: ManagedModel, nowMs: number): LoadStep {
    const { device } = model.supervisor.spec
    const budgetBytes = this.memory.get(device) ?? null
    const beside = [...this.models.values()].filter(({ supervisor }) => mayShare(supervisor.spec.device, device))
    return planLoad(
      { id: model.upstream.id, needBytes: this.needOf(model), sinceMs: model.sinceMs() },
      beside.flatMap((each) => each.toResident(this.needOf(each) ?? budgetBytes ?? 0) ?? []),
      { budgetBytes, nowMs, patienceMs: PATIENCE_MS },
    )
  }

  #evict(id: string, nowMs: number): void {
    const model = this.models.get(id)
    if (!model) return
    model.evictedMs = nowMs
    void model.supervisor.stop()
  }

  #hold(id: string): void {
    const model = this.models.get(id)
    if (model) model.isHeld = true
  }

  #start({ upstream, line, supervisor }: ManagedModel): void {
    this.#deps.log.info('process_started', 'a model server is started', { upstream: upstream.id, queued: line.length })
    supervisor.start()
  }

  #noteTooLarge(model: ManagedModel, mostBytes: number): void {
    const { supervisor, upstream } = model
    const reason = toReason(this.needOf(model), mostBytes, supervisor.spec.device)
    if (supervisor.failure?.reason === reason) return
    this.#deps.log.error('process_too_large', reason, { upstream: upstream.id })
    supervisor.failure = { kind: 'memory', reason }
  }

  #refuse(model: ManagedModel, mostBytes: number): void {
    this.#noteTooLarge(model, mostBytes)
    model.wanted = null
    model.refuseAll(toTooLarge())
  }

  /** Returns when it would have to be stopped. */
  #stopIdle(model: ManagedModel, nowMs: number): number {
    const { supervisor, spec, answering, line } = model
    if (supervisor.phase !== 'ready') return NEVER
    model.wanted = null
    if (spec.pin || spec.idleMs === null || answering > 0 || line.length > 0) return NEVER
    const atMs = Math.max(model.lastUsedMs, supervisor.readyMs) + spec.idleMs
    if (atMs > nowMs) return atMs
    void supervisor.stop()
    return NEVER
  }
}

const isStartable = ({ isWanted, isGone, next, supervisor }: ManagedModel) =>
  isWanted && !isGone && next === null && supervisor.phase === 'stopped'

const toGib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`

function toReason(needBytes: number | null, mostBytes: number, device: string | null): string {
  const need = `${needBytes === null ? 'some memory' : toGib(needBytes)}${device === null ? '' : ` of ${device}`}`
  const name = device === null ? 'memory' : `memory.${device}`
  return `a model server needs ${need}, and beside what is pinned \`${name}\` in the catalogue leaves it ${toGib(Math.max(0, mostBytes))}: raise that, lower its own, or give it a smaller context`
}

/** What a process is seen to take is of the machine's own memory: it says nothing of a graphics card's. */
const isMeasurable = ({ device }: ProcessSpec) => device === null || device === CPU

/** One that was started before its device was named may be on any, until it has ended. */
const mayShare = (one: string | null, other: string | null) => one === other || one === null || other === null

/** A model that takes memory now. Times are of a clock that never steps, ms. */
export interface Resident {
  id: string
  needBytes: number
  /** Whether it stays for as long as the server runs. */
  isPinned: boolean
  phase: 'loading' | 'ready' | 'stopping'
  answering: number
  waiting: number
  lastUsedMs: number
  /** Until when it stays, whoever waits for another one. */
  keptUntilMs: number
}

/** A model that somebody waits for and that is not loaded. */
export interface Wanted {
  id: string
  /** Null where nobody knows: it then has all that the pinned ones leave. */
  needBytes: number | null
  /** Since when somebody waits for it. */
  sinceMs: number
}

interface Machine {
  /** What all models together may take; null = all that are asked for. */
  budgetBytes: number | null
  nowMs: number
  /** How long those that wait for a loaded model go first. */
  patienceMs: number
}

/**
 * `evict`: these are to be stopped first. `wait`: something goes by itself; look again when that is so, and at `atMs`. `hold`:
 * those are not to begin another answer until then. `never`: it needs more than `mostBytes`, all that it could ever have.
 */
export type LoadStep =
  | { kind: 'start' }
  | { kind: 'evict'; ids: string[] }
  | { kind: 'wait'; atMs: number | null; hold: string[] }
  | { kind: 'never'; mostBytes: number }

/**
 * Whether one more model may be loaded now, what has to go for it, or what it waits for. What was used longest ago goes first, and
 * nothing that is answering ever goes. Those that wait for a loaded model go before those that wait for another one in its place, but
 * only for so long; and each stays for a while once it is loaded, so that two models that are asked for in turn do not spend all time
 * on loading. Pure.
 */
export function planLoad(wanted: Wanted, residents: readonly Resident[], machine: Machine): LoadStep {
  const { budgetBytes, nowMs, patienceMs } = machine
  if (budgetBytes === null) return { kind: 'start' }
  const mostBytes = budgetBytes - sum(residents.filter(({ isPinned }) => isPinned))
  const needBytes = wanted.needBytes ?? Math.max(1, mostBytes)
  if (needBytes > mostBytes) return { kind: 'never', mostBytes }
  const freeBytes = budgetBytes - sum(residents)
  if (needBytes <= freeBytes) return { kind: 'start' }
  const leaving = residents.filter(({ phase }) => phase === 'stopping')
  const lackBytes = needBytes - freeBytes - sum(leaving)
  if (lackBytes <= 0) return { kind: 'wait', atMs: null, hold: [] }
  const impatientMs = wanted.sinceMs + patienceMs
  const isImpatient = nowMs >= impatientMs
  const loaded = residents
    .filter(({ phase, isPinned }) => phase === 'ready' && !isPinned)
    .toSorted((a, b) => a.lastUsedMs - b.lastUsedMs)
  const free = loaded.filter((one) => isFree(one, nowMs, isImpatient))
  const now = choose(free, lackBytes)
  if (now) return { kind: 'evict', ids: now }
  const soon = loaded.flatMap(({ keptUntilMs }) => (keptUntilMs > nowMs ? keptUntilMs : []))
  const times = isImpatient ? soon : [...soon, impatientMs]
  const atMs = times.length === 0 ? null : Math.min(...times)
  // What is still kept goes on until then: it was loaded for those who wait for it.
  const held = loaded.filter(({ keptUntilMs }) => keptUntilMs <= nowMs)
  return { kind: 'wait', atMs, hold: isImpatient ? (choose(held, lackBytes) ?? []) : [] }
}

const isFree = ({ answering, waiting, keptUntilMs }: Resident, nowMs: number, isImpatient: boolean) =>
  answering === 0 && nowMs >= keptUntilMs && (waiting === 0 || isImpatient)

const sum = (residents: readonly Resident[]) => residents.reduce((all, { needBytes }) => all + needBytes, 0)

/** The first ones that together have so much, and none that is not needed for it; null where all do not. */
function choose(inOrder: readonly Resident[], bytes: number): string[] | null {
  const chosen: Resident[] = []
  for (const one of inOrder) {
    if (sum(chosen) >= bytes) break
    chosen.push(one)
  }
  if (sum(chosen) < bytes) return null
  // An early small one may be of no use beside a later large one.
  const needed = chosen.filter((one, index) => sum(chosen) - one.needBytes < bytes || index === chosen.length - 1)
  return (sum(needed) >= bytes ? needed : chosen).map(({ id }) => id)
}
