/**
 * Decides which model servers run: those with queued requests, as far as memory allows. Servers with requests in flight
 * are stopped only if unhealthy.
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

/** How long requests for a loaded model have priority over requests for another model. */
const PATIENCE_MS = 20_000
/** Time for an unhealthy server to finish its requests. */
const SICK_GRACE_MS = 10_000
const NEVER = Number.POSITIVE_INFINITY

export class Arrangement {
  readonly models = new Map<string, ManagedModel>()
  /** By device. */
  memory: MemoryBudgets = new Map()
  isDraining = false
  readonly #deps: ArrangeDeps
  #isArranging = false
  #isChanged = false
  #takeBack = () => {}

  constructor(deps: ArrangeDeps) {
    this.#deps = deps
  }

  /** Changes made during a run cause one more run. */
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

  /** Bytes; null if unknown. */
  needOf = ({ supervisor: { spec } }: ManagedModel): number | null =>
    spec.memoryBytes ?? (isMeasurable(spec) ? this.#deps.measured.get(spec.hash) : null)

  /** True if it never fits next to the pinned models; also sets its failure. */
  isTooLarge(model: ManagedModel): boolean {
    const { supervisor } = model
    if (supervisor.phase !== 'stopped') return false
    const step = this.#plan(model, this.#deps.clock.nowMs())
    if (step.kind === 'never') this.#noteTooLarge(model, step.mostBytes)
    else if (supervisor.failure?.kind === 'memory') supervisor.failure = null
    return step.kind === 'never'
  }

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

  /** Moves a model to its newest command, or removes it, after its requests. */
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
    const what = 'model server failed repeatedly; stopped (restarts on next request)'
    log.warn('process_unhealthy', what, { upstream: model.upstream.id })
    model.isLeaving = true
    const { server } = model.supervisor
    clock.after(SICK_GRACE_MS, () => {
      if (model.supervisor.server === server && server !== null) void model.supervisor.stop()
    })
  }

  /** @returns when to plan again. */
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
      // If memory for a preload is missing, the first request starts the model.
      else if (model.line.length === 0 && model.wanted === 'preload') model.wanted = null
      // On each device, only the model that waits longest may evict others.
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
    this.#deps.log.info('process_started', 'model server starting', { upstream: upstream.id, queued: line.length })
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

  /** @returns when it becomes idle. */
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
  return `the model server needs ${need}, but \`${name}\` in the catalog leaves ${toGib(Math.max(0, mostBytes))} next to pinned models; raise that limit, lower its own, or give it a smaller context`
}

/** The measured memory of a process says nothing about a GPU's. */
const isMeasurable = ({ device }: ProcessSpec) => device === null || device === CPU

/** A model without a device may use any device. */
const mayShare = (one: string | null, other: string | null) => one === other || one === null || other === null

/** Times are monotonic, ms. */
export interface Resident {
  id: string
  needBytes: number
  isPinned: boolean
  phase: 'loading' | 'ready' | 'stopping'
  answering: number
  waiting: number
  lastUsedMs: number
  /** Not evicted before this time. */
  keptUntilMs: number
}

/** A model with queued requests that is not loaded. */
export interface Wanted {
  id: string
  /** If null, it gets all memory except that of pinned models. */
  needBytes: number | null
  sinceMs: number
}

interface Machine {
  /** Null for no limit. */
  budgetBytes: number | null
  nowMs: number
  patienceMs: number
}

/**
 * `evict`: stop these first. `wait`: plan again when memory becomes free, and at `atMs`. `hold`: until then, these take
 * no more requests. `never`: it needs more than `mostBytes`, the maximum that could become free.
 */
export type LoadStep =
  | { kind: 'start' }
  | { kind: 'evict'; ids: string[] }
  | { kind: 'wait'; atMs: number | null; hold: string[] }
  | { kind: 'never'; mostBytes: number }

/**
 * Evicts the least recently used models first, never one with requests in flight. Requests for a loaded model have
 * priority, but only for `patienceMs`. A loaded model stays for a while, so that two models called in turn don't spend
 * all time loading.
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
  const held = loaded.filter(({ keptUntilMs }) => keptUntilMs <= nowMs)
  return { kind: 'wait', atMs, hold: isImpatient ? (choose(held, lackBytes) ?? []) : [] }
}

const isFree = ({ answering, waiting, keptUntilMs }: Resident, nowMs: number, isImpatient: boolean) =>
  answering === 0 && nowMs >= keptUntilMs && (waiting === 0 || isImpatient)

const sum = (residents: readonly Resident[]) => residents.reduce((all, { needBytes }) => all + needBytes, 0)

/** The first models that together have enough memory, without unneeded ones. Null if all together have too little. */
function choose(inOrder: readonly Resident[], bytes: number): string[] | null {
  const chosen: Resident[] = []
  for (const one of inOrder) {
    if (sum(chosen) >= bytes) break
    chosen.push(one)
  }
  if (sum(chosen) < bytes) return null
  // A later large model may make an earlier small one unnecessary.
  const needed = chosen.filter((one, index) => sum(chosen) - one.needBytes < bytes || index === chosen.length - 1)
  return (sum(needed) >= bytes ? needed : chosen).map(({ id }) => id)
}
