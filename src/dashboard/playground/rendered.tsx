/** An answer's Markdown. Loaded with the first answer. */
import { type ComponentChildren, createElement } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { CopyButton } from '../ui/controls.tsx'
import { isLong, LongText } from './answer.tsx'
import { type Block, findSettled, type Inline, readMarkdown } from './markdown.ts'

interface MarkdownProps {
  text: string
  isRunning: boolean
}

/** While an answer streams, only its last part is read again, and at most once per frame. */
export function Markdown({ text: latest, isRunning }: MarkdownProps) {
  const text = useFramed(latest, isRunning)
  const settledAt = isRunning ? findSettled(text) : 0
  const settled = text.slice(0, settledAt)
  const head = useMemo(() => (settled === '' ? [] : readMarkdown(settled)), [settled])
  const shownHead = useMemo(() => head && <Blocks of={head} />, [head])
  const tail = useMemo(() => (head === null ? null : readMarkdown(text.slice(settledAt))), [head, text, settledAt])
  const json = useMemo(() => (isRunning ? null : readJson(text)), [text, isRunning])
  if (json !== null) return <CodeBlock text={json} language="json" />
  if (head === null || tail === null) return <LongText text={text} />
  return (
    <div class={isRunning ? 'markdown is-running' : 'markdown'}>
      {shownHead}
      <Blocks of={tail} />
    </div>
  )
}

/** Indented, unless it would lose digits or duplicate names. Null if the text is anything but an object or array. */
function readJson(text: string): string | null {
  if (isLong(text) || !/^\s*[[{]/.test(text)) return null
  try {
    const value = JSON.parse(text)
    const isExact = JSON.stringify(value).replaceAll(/\s/g, '') === text.replaceAll(/\s/g, '')
    return isExact ? JSON.stringify(value, null, 2) : text
  } catch {
    return null
  }
}

/** The text as of the last frame. */
function useFramed(text: string, isRunning: boolean): string {
  const [shown, setShown] = useState(text)
  const latest = useRef(text)
  latest.current = text
  const frame = useRef(0)
  useEffect(() => {
    if (isRunning && frame.current === 0)
      frame.current = requestAnimationFrame(() => {
        frame.current = 0
        setShown(latest.current)
      })
  }, [text, isRunning])
  useEffect(() => () => cancelAnimationFrame(frame.current), [])
  return isRunning ? shown : text
}

const Blocks = ({ of: blocks }: { of: readonly Block[] }) => <>{blocks.map(toNode)}</>

function toNode(block: Block): ComponentChildren {
  switch (block.kind) {
    case 'paragraph':
      return <p>{block.children.map(toInlineNode)}</p>
    case 'heading':
      // Below the heading that names the answer.
      return <h3>{block.children.map(toInlineNode)}</h3>
    case 'code':
      return <CodeBlock text={block.text} language={block.language} />
    case 'quote':
      return <blockquote>{block.children.map(toNode)}</blockquote>
    case 'list': {
      const items = block.items.map((item) => <li>{item.map(toNode)}</li>)
      return block.start === null ? <ul>{items}</ul> : <ol start={block.start}>{items}</ol>
    }
    case 'table':
      return <TableBlock head={block.head} rows={block.rows} />
    case 'rule':
      return <hr />
  }
}

function toInlineNode(inline: Inline): ComponentChildren {
  switch (inline.kind) {
    case 'text':
      return inline.text
    case 'code':
      return <code>{inline.text}</code>
    case 'break':
      return <br />
    case 'link':
      return (
        <a href={inline.href} title={inline.href} target="_blank" rel="noopener noreferrer">
          {inline.children.map(toInlineNode)}
        </a>
      )
    case 'strong':
    case 'em':
    case 'del':
      return createElement(inline.kind, null, inline.children.map(toInlineNode))
  }
}

const CodeBlock = ({ text, language }: { text: string; language: string }) => (
  <div class="markdown-code">
    <div class="markdown-code-head">
      <span class="dim">{language || 'text'}</span>
      <CopyButton text={text} what={language || 'code'} />
    </div>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
    <pre tabIndex={0}>
      <code>{text}</code>
    </pre>
  </div>
)

const TableBlock = ({ head, rows }: Pick<Extract<Block, { kind: 'table' }>, 'head' | 'rows'>) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
  <div class="markdown-table" tabIndex={0}>
    <table>
      <thead>
        <tr>
          {head.map((cell) => (
            <th scope="col">{cell.map(toInlineNode)}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {row.map((cell) => (
              <td>{cell.map(toInlineNode)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)
