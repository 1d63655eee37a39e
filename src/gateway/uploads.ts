/**
 * Bodies that are on their way: each must have arrived by a deadline, however steadily it drips, and none outlasts the
 * beginning of a drain. One timer serves them all, since the first to come is the first whose time is up.
 */
import { GatewayError } from '../domain/error.ts'

export interface UploadsOptions {
  /** How long a whole body may take, ms. */
  uploadMs: number
  /** A clock that never steps, ms. */
  nowMs?(): number
  /** Calls back after so many ms. */
  after?(ms: number, then: () => void): void
}

export class Uploads {
  readonly #uploadMs: number
  readonly #nowMs: () => number
  readonly #after: (ms: number, then: () => void) => void
  /** The oldest first. */
  readonly #underWay = new Set<Upload>()
  #isWaiting = false

  constructor({
    uploadMs,
    nowMs = () => performance.now(),
    after = (ms, then) => setTimeout(then, ms).unref(),
  }: UploadsOptions) {
    this.#uploadMs = uploadMs
    this.#nowMs = nowMs
    this.#after = after
  }

  begin(): Upload {
    const upload = new Upload(this.#underWay, this.#nowMs() + this.#uploadMs)
    this.#underWay.add(upload)
    if (!this.#isWaiting) this.#wait(this.#uploadMs)
    return upload
  }

  /** Refuses all that are under way. */
  end(refusal: () => GatewayError): void {
    for (const upload of this.#underWay) upload.end(refusal())
  }

  #wait(ms: number): void {
    this.#isWaiting = true
    this.#after(ms, () => this.#look())
  }

  #look(): void {
    this.#isWaiting = false
    const nowMs = this.#nowMs()
    for (const upload of this.#underWay) {
      if (upload.untilMs > nowMs) {
        this.#wait(upload.untilMs - nowMs)
        return
      }
      upload.end(tooSlow(this.#uploadMs))
    }
  }
}

export class Upload {
  readonly untilMs: number
  readonly #among: Set<Upload>
  #refuse: ((refusal: GatewayError) => void) | null = null
  #refusal: GatewayError | null = null

  constructor(among: Set<Upload>, untilMs: number) {
    this.#among = among
    this.untilMs = untilMs
  }

  get isEnded(): boolean {
    return this.#refusal !== null
  }

  /** Resolves with what is read, or with the refusal where that comes first. Rejects as the reading does. */
  race<T>(reading: Promise<T>): Promise<T | GatewayError> {
    if (this.#refusal) return Promise.resolve(this.#refusal)
    return new Promise((resolve, reject) => {
      this.#refuse = resolve
      reading.then(resolve, reject)
    })
  }

  /** Nothing is on its way any more. */
  leave(): void {
    this.#among.delete(this)
  }

  end(refusal: GatewayError): void {
    this.#among.delete(this)
    this.#refusal = refusal
    this.#refuse?.(refusal)
  }
}

const tooSlow = (ms: number) =>
  new GatewayError(
    'slow_upload',
    `The request body did not arrive within ${ms / 1_000} s. Send it again over a faster connection, or send less.`,
    // Whatever of it may still come is nobody's.
    { headers: { connection: 'close' } },
  )
