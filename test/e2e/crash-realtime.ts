/** Realtime sessions in the crash tests: each response has a unique number of tokens, to find its row. */
import type { RequestRow } from './crash-verdict.ts'

export interface TalkUpstream {
  /** Ends in `/v1`. */
  url: string
  /** Numbers of the requested responses. */
  asked: number[]
  stop(): void
}

/** Input tokens, which no other request has. */
const toInput = (number: number) => 20_000 + number
const OUTPUT = 5

export function startTalkUpstream(): TalkUpstream {
  const asked: number[] = []
  const server = Bun.serve({
    port: 0,
    fetch: (request, server) => (server.upgrade(request) ? undefined : new Response('no', { status: 400 })),
    websocket: {
      open: (ws) => void ws.send(JSON.stringify({ type: 'session.created', session: { type: 'realtime' } })),
      async message(ws, text) {
        const { type, response } = JSON.parse(String(text))
        if (type !== 'response.create') return
        const number = Number(response.instructions)
        asked.push(number)
        ws.send(JSON.stringify({ type: 'response.created', response: { id: `r${number}` } }))
        await Bun.sleep(number % 7)
        const tokens = { input_tokens: toInput(number), output_tokens: OUTPUT }
        const usage = { ...tokens, total_tokens: tokens.input_tokens + OUTPUT }
        ws.send(JSON.stringify({ type: 'response.done', response: { id: `r${number}`, usage } }))
      },
    },
  })
  return { url: `http://127.0.0.1:${server.port}/v1`, asked, stop: () => void server.stop(true) }
}

export interface Talk {
  /** Numbers of the responses that clients received completely. */
  heard: number[]
  /** Runs sessions until the returned function is called. */
  talk(clients: number): () => Promise<void>
}

export function createTalk(target: () => { url: string; key: string }): Talk {
  const heard: number[] = []
  let last = 0

  /** One session of a few responses; ends early if the server does. */
  const session = (): Promise<void> => {
    const { url, key } = target()
    const headers = { authorization: `Bearer ${key}` }
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime?model=realtime/one`, { headers } as never)
    let left = 5
    let number = 0
    const next = () => {
      if (left-- === 0) return socket.close()
      number = ++last
      socket.send(JSON.stringify({ type: 'response.create', response: { instructions: String(number) } }))
    }
    return new Promise((resolve) => {
      socket.onclose = () => resolve()
      socket.onmessage = ({ data }) => {
        const { type } = JSON.parse(String(data))
        if (type === 'error') socket.close()
        if (type === 'response.done') heard.push(number)
        if (type === 'response.done' || type === 'session.created') next()
      }
    })
  }

  return {
    heard,
    talk(clients) {
      let going = true
      const client = async () => {
        while (going) {
          await session()
          await Bun.sleep(10)
        }
      }
      const all = Promise.all(Array.from({ length: clients }, client))
      return async () => {
        going = false
        await all
      }
    },
  }
}

/**
 * Lists problems: received responses without one settled row, to the nano-dollar, and more received responses than
 * rows.
 */
export function wrongTurns(heard: readonly number[], asked: readonly number[], all: readonly RequestRow[]): unknown[] {
  const rows = all.filter(({ endpoint }) => endpoint === 'realtime')
  const wrong: unknown[] = heard.flatMap((number) => {
    const found = rows.filter((row) => row.prompt_tokens === toInput(number) && row.status === 'ok')
    const cost = toInput(number) * 1_250 + OUTPUT * 10_001
    const isRight = found.length === 1 && found[0]?.cost_nano_usd === cost && found[0].estimated === 0
    return isRight ? [] : [{ number, cost, found }]
  })
  return rows.length < asked.length ? [...wrong, `${asked.length} responses and ${rows.length} rows`] : wrong
}
