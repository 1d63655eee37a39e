/** What each page begins with: its title, which is the tab's, too, and where the focus goes when it is opened; what one can do on it. */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { address, toHref } from '../address/address.ts'
import { Form, type FormState } from '../ui/form.tsx'

let shownPath: string | null = null

interface PageFrameProps {
  title: string
  /** Above it, such as the link back to a list. */
  above?: ComponentChildren
  /** Beside the title: a button or two. */
  actions?: ComponentChildren
  children: ComponentChildren
}

export function Page({ title, above, actions, children }: PageFrameProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Tollgate`
  }, [title])
  // Before anybody sees the page: what is typed then is not taken from where they went.
  useLayoutEffect(() => {
    const { path } = address.peek()
    // Not at the first page: there the browser knows best.
    if (shownPath !== null && shownPath !== path && !document.querySelector('[autofocus]')) {
      heading.current?.focus({ preventScroll: true })
      scrollTo(0, 0)
    }
    shownPath = path
  }, [])
  return (
    <>
      {above && <p class="page-above">{above}</p>}
      <header class="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </>
  )
}

export const NotForYou = () => (
  <Page title="Not for your role">
    <p>This page is for people with another role. An owner can change yours.</p>
  </Page>
)

interface FormPageProps<Values extends Record<string, string>> {
  title: string
  /** The list: where it is, and what it is called. */
  list: readonly [path: string, title: string]
  form: FormState<Values>
  submit: string
  children: ComponentChildren
}

export const FormPage = <Values extends Record<string, string>>({
  title,
  list: [path, listTitle],
  form,
  submit,
  children,
}: FormPageProps<Values>) => (
  <Page title={title} above={<a href={toHref(path)}>{listTitle}</a>}>
    <div class="panel narrow">
      <Form of={form} submit={submit} beside={<a href={toHref(path)}>Cancel</a>}>
        {children}
      </Form>
    </div>
  </Page>
)
