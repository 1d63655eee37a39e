/** Pages that stand together under one in the list of pages: each an address of its own. */
import { address, toHref } from '../address/address.ts'

export const SubPages = ({
  label,
  pages,
}: {
  label: string
  pages: readonly (readonly [path: string, title: string])[]
}) => (
  <nav class="sub-pages" aria-label={label}>
    {pages.map(([path, title]) => (
      <a key={path} href={toHref(path)} aria-current={address.value.path === path ? 'page' : undefined}>
        {title}
      </a>
    ))}
  </nav>
)
