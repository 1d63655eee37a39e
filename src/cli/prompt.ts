/** Prompts for one line on the terminal; a secret is not echoed. */
import { isatty } from 'node:tty'

/** Null without a terminal, or if canceled (Ctrl-C, Ctrl-D). */
export async function askTerminal(question: string, isSecret: boolean): Promise<string | null> {
  const { stdin, stderr } = process
  if (!isatty(0)) return null
  // Before the prompt, so early input is not echoed either.
  stdin.setRawMode(true)
  stderr.write(question)
  const line = createLine(isSecret ? () => {} : (text) => void stderr.write(text))
  stdin.setEncoding('utf8')
  try {
    await new Promise<void>((resolve) => {
      const take = (piece: unknown) => {
        line.take(String(piece))
        if (line.state() !== 'open') end()
      }
      // Iterating over stdin would close it.
      const end = () => {
        stdin.off('data', take).off('end', end)
        resolve()
      }
      stdin.on('data', take).on('end', end).resume()
    })
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
    stderr.write('\n')
  }
  return line.state() === 'done' ? line.text() : null
}

/** Line editing in raw mode. */
export function createLine(echo: (text: string) => void) {
  let text = ''
  let state: 'open' | 'done' | 'canceled' = 'open'
  const key = (typed: string) => {
    if (state !== 'open') return
    if (typed === '\r' || typed === '\n') state = 'done'
    else if (typed === CTRL_C || (typed === CTRL_D && text === '')) state = 'canceled'
    else if (typed === '\u007f' || typed === '\b') {
      if (text !== '') echo('\b \b')
      text = [...text].slice(0, -1).join('')
    } else if (typed === CTRL_U) {
      echo('\b \b'.repeat([...text].length))
      text = ''
    } else if (typed >= ' ') {
      text += typed
      echo(typed)
    }
  }
  return {
    take(piece: string): void {
      for (const typed of piece.replace(SEQUENCES, '')) key(typed)
    },
    state: () => state,
    text: () => text,
  }
}

const [CTRL_C, CTRL_D, CTRL_U] = ['\u0003', '\u0004', '\u0015']

/** Arrows, function keys, and paste markers (ECMA-48). */
const SEQUENCES = new RegExp(`${String.fromCharCode(27)}(\\[[0-9;?]*[ -/]*[@-~]|O.)`, 'g')
