/** Requests whose bodies never end, like those of a hostile or broken client. */
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Status } from '../../src/server/protocol.ts'
import type { TestApp } from '../support/app.ts'

export interface HalfSent {
  socket: Socket
  answer: string
  isClosed: boolean
}

export function sendHalf(app: TestApp, key: string, framing = 'content-length: 1000', body = '{'): HalfSent {
  const { hostname, port } = new URL(app.origin)
  const socket = connect(Number(port), hostname)
  const half: HalfSent = { socket, answer: '', isClosed: false }
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    half.answer += bytes.toString()
  })
  socket.on('close', () => {
    half.isClosed = true
  })
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n${framing}\r\n\r\n${body}`,
  )
  return half
}

export async function statusOf({ dataFolder }: TestApp): Promise<Status> {
  const answer = await fetch('http://localhost/status', { unix: join(dataFolder, 'control.sock') })
  return JSON.parse(await answer.text())
}
