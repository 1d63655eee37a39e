/** A request over a raw socket, without a client's normalization: the path keeps its dots. */

export interface RawAnswer {
  status: number
  headers: Headers
  body: Buffer<ArrayBuffer>
}

export interface RawRequest {
  method?: string
  /** HTTP/1.0 requests have no host. */
  version?: '1.0' | '1.1'
  /** Header lines; a host among them replaces the server's. */
  headers?: readonly (readonly [name: string, value: string])[]
  body?: string
}

export async function askRaw(
  origin: string,
  path: string,
  { method = 'GET', version = '1.1', headers = [], body = '' }: RawRequest = {},
): Promise<RawAnswer> {
  const { hostname, port, host } = new URL(origin)
  const own = version === '1.0' || headers.some(([name]) => name === 'host') ? [] : [['host', host]]
  const length = body === '' ? [] : [['content-length', String(Buffer.byteLength(body))]]
  const lines = [...own, ...length, ['connection', 'close'], ...headers].map(([name, value]) => `${name}: ${value}`)
  const received: Buffer[] = []
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      open: (socket) =>
        void socket.write(`${[`${method} ${path} HTTP/${version}`, ...lines].join('\r\n')}\r\n\r\n${body}`),
      data: (_, bytes) => void received.push(Buffer.from(bytes)),
      close: () => resolve(),
    },
  })
  await ended
  const all = Buffer.concat(received)
  const end = all.indexOf('\r\n\r\n')
  const [first = '', ...rest] = all.subarray(0, end).toString().split('\r\n')
  const toPair = (line: string): [string, string] => [
    line.slice(0, line.indexOf(':')),
    line.slice(line.indexOf(':') + 1).trim(),
  ]
  return { status: Number(first.split(' ')[1]), headers: new Headers(rest.map(toPair)), body: all.subarray(end + 4) }
}
