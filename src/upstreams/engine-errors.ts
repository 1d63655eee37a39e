/**
 * What model servers that people run themselves say with a status that blames the server, though it is not at fault: seen of
 * llama-server (github.com/ggml-org/llama.cpp) and of Ollama, which hands on what that says. Read by the dialects that they speak.
 * That a prompt is too long, `overflow.ts` reads. Pure.
 */
import type { UpstreamErrorDetail } from '../domain/error.ts'

interface Said {
  words: RegExp
  /**
   * - `request`: any such server would say the same of it.
   * - `busy`: it works, and has no room for one more just now.
   * - `spoiled`: what the model wrote could not be read as it has to be. It may go well once more, and was worked for.
   */
  means: 'request' | 'busy' | 'spoiled'
  code?: string
}

const SAID: readonly Said[] = [
  // Another target of the model may have its projector.
  { words: /^(image|audio|video) input is not supported/i, means: 'request', code: 'unsupported_value' },
  { words: /^failed to parse tool call arguments as JSON/i, means: 'request' },
  { words: /^the model produced output that does not match the expected \S+ format/i, means: 'spoiled' },
  // Several clients share one context: all of them have it at once.
  { words: /^context size has been exceeded/i, means: 'busy' },
  { words: /^loading model$/i, means: 'busy' },
  // Ollama's, with `OLLAMA_MAX_QUEUE`
  { words: /^server busy, please try again/i, means: 'busy' },
]

/**
 * Reads what a server says with a status of 500 or more.
 * @returns what differs from a failure of the server's own; null where it is one.
 */
export function toEngineFault(status: number, sentence: string): UpstreamErrorDetail | null {
  const found = status >= 500 ? SAID.find(({ words }) => words.test(sentence)) : undefined
  if (found === undefined) return null
  const { means, code } = found
  if (means === 'request') return { status: 400, retryable: false, code: code ?? null }
  return means === 'busy' ? { status: 503, retryable: true, isBusy: true } : { retryable: true, isSpoiled: true }
}
