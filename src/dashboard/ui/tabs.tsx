/** Tabs with arrow-key navigation, those of code, and links between subpages. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { address, toHref } from '../address/address.ts'
import { Code } from './controls.tsx'

interface Tab {
  title: string
  content: ComponentChildren
}

export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const [chosen, choose] = useState(0)
  const id = useId()
  const at = useRef<HTMLDivElement>(null)
  const go = (to: number) => {
    choose(to)
    at.current?.querySelectorAll<HTMLElement>('[role=tab]')[to]?.focus()
  }
  const move = (event: KeyboardEvent) => {
    const to = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: 0, End: tabs.length - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    go((to + tabs.length) % tabs.length)
  }
  return (
    <div class="tabs">
      <div ref={at} role="tablist" aria-label={label} tabIndex={-1} onKeyDown={move}>
        {tabs.map(({ title }, index) => (
          <button
            key={title}
            type="button"
            role="tab"
            id={`${id}-tab-${index}`}
            aria-selected={index === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={index === chosen ? 0 : -1}
            onClick={() => choose(index)}
          >
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-tab-${chosen}`}>
        {tabs[chosen]?.content}
      </div>
    </div>
  )
}

type Snippets = typeof import('../snippets/all.ts')

/** Shows snippets once their code has loaded. */
export function CodeTabs({ of, label }: { of(write: Snippets): { title: string; text: string }[]; label: string }) {
  const [write, setWrite] = useState<Snippets | null>(null)
  useEffect(() => void import('../snippets/all.ts').then(setWrite, () => {}), [])
  if (write === null) return null
  return (
    <Tabs
      label={label}
      tabs={of(write).map(({ title, text }) => ({ title, content: <Code text={text} label={title} /> }))}
    />
  )
}

interface SubPagesProps {
  label: string
  pages: readonly (readonly [path: string, title: string])[]
  open?: string
}

export const SubPages = ({ label, pages, open = address.value.path }: SubPagesProps) => (
  <nav class="sub-pages" aria-label={label}>
    {pages.map(([path, title]) => (
      <a key={path} href={toHref(path)} aria-current={path === open ? 'page' : undefined}>
        {title}
      </a>
    ))}
  </nav>
)
