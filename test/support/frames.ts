/** Reads a stream's frames and `[DONE]`, and accepts nothing else. */
import { expect } from 'bun:test'

export interface Frame {
  id: string
  object: string
  created: number
  model: string
  choices: { index: number; delta: Record<string, unknown>; finish_reason: string | null }[]
  usage?: Record<string, unknown> | null
  error?: { message: string; type: string; code: string | null; param: string | null }
}

export interface Frames {
  frames: Frame[]
  done: boolean
  /** All `delta.content`, joined. */
  content: string
  /** Must be the last frame. */
  error: Frame['error'] | null
}

/** Fails on anything but chat completion frames. */
export function toFrames(text: string): Frames {
  expect(text).toEndWith('\n\n')
  const events = text.slice(0, -2).split('\n\n')
  for (const event of events) expect(event).toMatch(/^data: [^\n\r]+$/)
  const done = events.at(-1) === 'data: [DONE]'
  const frames = (done ? events.slice(0, -1) : events).map((event): Frame => JSON.parse(event.slice(6)))
  const content = frames.map((frame) => frame.choices?.[0]?.delta.content ?? '').join('')
  const error = frames.at(-1)?.error ?? null
  if (error) expect(events.at(-1)).toStartWith('data: {"error":{')
  return { frames, done, content, error }
}
